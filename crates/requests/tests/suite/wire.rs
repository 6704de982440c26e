//! A wire of a known delay in front of a real server, so that two generators can be compared on a
//! machine whose scheduler adds milliseconds.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Delay of an answer, by its number.
pub type Delay = Arc<dyn Fn(u64) -> Duration + Send + Sync>;

/// Evenly distributed delays from 160 to 800 ms: the fractional parts of multiples of the golden
/// ratio leave no gaps even if there are few. They are long compared with the scheduling delays of
/// a machine busy with other tests.
pub fn even() -> Delay {
    const GOLDEN: f64 = 0.618_033_988_749_895;
    Arc::new(|number| Duration::from_secs_f64(0.16 + 0.64 * (number as f64 * GOLDEN).fract()))
}

/// Returns an address that delays answers of `server` by `delay`. An answer in several pieces is
/// delayed several times: use small ones, without pipelining.
pub fn wire(server: SocketAddr, delay: &Delay) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (delay, number) = (Arc::clone(delay), Arc::new(AtomicU64::new(0)));
    std::thread::spawn(move || {
        for client in listener.incoming() {
            let Ok(client) = client else { return };
            let Ok(server) = TcpStream::connect(server) else { return };
            let both = (client.try_clone().unwrap(), server.try_clone().unwrap());
            std::thread::spawn(move || carry(both.0, both.1, || {}));
            let (delay, number) = (Arc::clone(&delay), Arc::clone(&number));
            let wait = move || std::thread::sleep(delay(number.fetch_add(1, Ordering::Relaxed)));
            std::thread::spawn(move || carry(server, client, wait));
        }
    });
    address
}

/// Forwards data, each piece after a wait, until either end hangs up.
fn carry(mut from: TcpStream, mut to: TcpStream, wait: impl Fn()) {
    let _ = to.set_nodelay(true);
    let mut buffer = [0; 1 << 16];
    while let Ok(length @ 1..) = from.read(&mut buffer) {
        wait();
        if to.write_all(&buffer[..length]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Both);
    let _ = from.shutdown(Shutdown::Both);
}
