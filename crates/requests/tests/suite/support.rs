//! Servers for the tests, on free ports of the loopback, killed by process id.

use std::io::{Read as _, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::AtomicBool;
use std::time::Duration;
use wattline_requests::Report;
use wattline_requests::engine::{self, LoadOptions};
use wattline_requests::protocol::Protocol;
use wattline_requests::schedule::Arrivals;

/// A program that ends with the test.
pub use wattline_needs::KillOnDrop as Running;
pub use wattline_testbed::command::program;

/// Returns an address of the loopback that nothing listens on.
pub fn free_address() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

/// Starts a program and waits until it listens.
pub fn start(command: &mut Command, address: SocketAddr) -> Running {
    let mut running =
        Running(command.stdin(Stdio::null()).stdout(Stdio::null()).spawn().expect("it starts"));
    wattline_needs::until(&format!("the server listens on {address}"), || {
        if let Some(status) = running.0.try_wait().unwrap() {
            panic!("the server ended with {status}");
        }
        TcpStream::connect(address).is_ok()
    });
    running
}

/// Starts a memcached with one thread; `None` if it is absent.
pub fn memcached() -> Option<(Running, SocketAddr)> {
    let mut command = program("memcached")?;
    let address = free_address();
    command.args(["-l", "127.0.0.1", "-t", "1", "-m", "256", "-c", "4096", "-u", "nobody"]);
    command.arg("-p").arg(address.port().to_string());
    Some((start(&mut command, address), address))
}

/// Starts an nginx with one process and a few pages, which writes only to `folder`; `None` if it is
/// absent.
pub fn nginx(folder: &Path) -> Option<(Running, SocketAddr)> {
    let mut command = program("nginx")?;
    let address = free_address();
    let root = folder.join("pages");
    std::fs::create_dir(&root).unwrap();
    std::fs::write(root.join("small"), "x".repeat(100)).unwrap();
    std::fs::write(root.join("large"), "y".repeat(300_000)).unwrap();
    std::fs::write(
        folder.join("nginx.conf"),
        format!(
            "daemon off; master_process off; worker_processes 1; pid {0}/pid; error_log {0}/error;
             events {{ worker_connections 4096; }}
             http {{ access_log off; keepalive_requests 10000000; client_body_temp_path {0}/b;
               proxy_temp_path {0}/p; fastcgi_temp_path {0}/f; uwsgi_temp_path {0}/u;
               scgi_temp_path {0}/s;
               server {{ listen {address}; root {0}/pages;
                 location /chunked {{ ssi on; ssi_types *; default_type text/html; alias {0}/pages/small; }}
                 location /busy {{ return 503; }} }} }}",
            folder.display()
        ),
    )
    .unwrap();
    command.arg("-p").arg(folder).arg("-c").arg(folder.join("nginx.conf"));
    command.arg("-e").arg(folder.join("error"));
    Some((start(&mut command, address), address))
}

/// Options of a load of one second over one connection.
pub fn options(rate: f64) -> LoadOptions {
    LoadOptions {
        rate,
        arrivals: Arrivals::Constant,
        connections: 1,
        threads: 1,
        depth: 1,
        duration: Duration::from_secs(1),
        warmup: Duration::ZERO,
        interval: Duration::from_millis(200),
        timeout: Duration::from_secs(10),
        seed: 1,
        spin: false,
    }
}

/// Runs a load and returns its report.
pub fn load<P: Protocol>(
    options: &LoadOptions,
    addresses: &[SocketAddr],
    protocol: impl Fn(usize) -> P,
) -> Report {
    let stop = AtomicBool::new(false);
    let (recording, intervals) =
        engine::run(options, addresses, protocol, &stop, |_, _| {}).expect("the load runs");
    Report::new::<P>("test", Vec::new(), options, &recording, intervals)
}

/// Starts a server that passes each connection to `serve`, on its own thread, until the test ends.
pub fn server(serve: impl Fn(TcpStream) + Send + Sync + Copy + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(stream) = stream else { return };
            std::thread::spawn(move || serve(stream));
        }
    });
    address
}

/// Reads a request, up to its empty line; returns false at the end of the connection.
pub fn read_http_request(stream: &mut TcpStream) -> bool {
    let mut last = [0; 4];
    let mut byte = [0];
    // Byte by byte, so that a pipelined request stays in the socket.
    while last != *b"\r\n\r\n" {
        match stream.read(&mut byte) {
            Ok(1) => {
                last.rotate_left(1);
                last[3] = byte[0];
            }
            _ => return false,
        }
    }
    true
}

/// Writes all bytes; returns false if the peer has closed.
pub fn write(stream: &mut TcpStream, bytes: &[u8]) -> bool {
    stream.write_all(bytes).is_ok()
}
