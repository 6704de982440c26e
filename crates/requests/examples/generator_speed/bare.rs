//! Minimal generator: writes a request as soon as the previous answer has been read.
//!
//! It has no schedule, no choice of keys, no parser and no histogram, so its processor time is that
//! of sockets, epoll and the loopback. A generator adds the rest.

use rustix::buffer::spare_capacity;
use rustix::event::Timespec;
use rustix::event::epoll::{self, EventData, EventFlags};
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};
use wattline_requests::clock::thread_cpu_time;

/// Sends `requests` in turn over the connections and returns the seconds of processor time and the
/// number of answers. An answer must fit into one segment.
pub fn run(
    address: SocketAddr,
    requests: &[Vec<u8>],
    connections: usize,
    duration: Duration,
) -> io::Result<(f64, u64)> {
    let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    let mut streams = Vec::new();
    let mut next = requests.iter().cycle();
    let mut request = || next.next().map_or(&[][..], Vec::as_slice);
    for number in 0..connections {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        stream.set_nonblocking(true)?;
        epoll::add(&epoll, &stream, EventData::new_u64(number as u64), EventFlags::IN)?;
        streams.push(stream);
    }
    for stream in &mut streams {
        stream.write_all(request())?;
    }
    let (mut events, mut buffer) = (Vec::with_capacity(256), vec![0; 1 << 17]);
    let (begin, cpu, mut answers) = (Instant::now(), thread_cpu_time(), 0_u64);
    let second = Timespec { tv_sec: 1, tv_nsec: 0 };
    while begin.elapsed() < duration {
        events.clear();
        epoll::wait(&epoll, spare_capacity(&mut events), Some(&second))?;
        for event in &events {
            let stream = &mut streams[event.data.u64() as usize];
            match stream.read(&mut buffer) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(_) => answers += 1,
                Err(error) if error.kind() == ErrorKind::WouldBlock => continue,
                Err(error) => return Err(error),
            }
            stream.write_all(request())?;
        }
    }
    Ok(((thread_cpu_time() - cpu) as f64 / 1e9, answers))
}
