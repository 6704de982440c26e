//! End of a UDP or TCP flow in a namespace of the guest: this program, started there with its task
//! in an environment variable. It prints at its end what has arrived.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::time::Duration;

/// Variable with the task: `receive ADDRESS COUNT`, `send ADDRESS COUNT RATE`, `take ADDRESS`,
/// `give ADDRESS BYTES`, `reflect ADDRESS`, `answer FROM HOST FIRST_PORT FLOWS`, `exchange ADDRESS FLOWS ROUNDS PAUSE_MS SEEN_AS`.
pub(super) const TASK: &str = "WATTLINE_TEST_END";
/// Bytes of a datagram.
const LENGTH: usize = 200;
/// Time that a receiver waits for the first datagram, and for each further one.
const FIRST: Duration = Duration::from_secs(30);
const NEXT: Duration = Duration::from_secs(4);

/// Does the task and returns true; returns false without that variable.
pub fn serve() -> bool {
    let Ok(task) = std::env::var(TASK) else { return false };
    let words: Vec<&str> = task.split_whitespace().collect();
    match words[..] {
        ["receive", at, count] => receive(at, count.parse().unwrap()),
        ["send", to, count, rate] => send(to, count.parse().unwrap(), rate.parse().unwrap()),
        ["take", at] => take(at),
        ["give", to, bytes] => give(to, bytes.parse().unwrap()),
        ["reflect", at] => reflect(at),
        ["answer", from, to, first, flows] => {
            answer(from, to, first.parse().unwrap(), flows.parse().unwrap());
        }
        ["exchange", to, flows, rounds, pause, seen_as] => {
            let [flows, rounds, pause] = [flows, rounds, pause].map(|it| it.parse().unwrap());
            exchange(to, flows, rounds, Duration::from_millis(pause.into()), seen_as);
        }
        _ => panic!("{TASK}={task:?}"),
    }
    true
}

/// Prints the number of datagrams, the last of them, and the longest gap.
fn receive(at: &str, count: u32) {
    let socket = UdpSocket::bind(at).unwrap();
    println!("\nready");
    let (mut received, mut last, mut missing) = (0, 0, 0);
    let mut buffer = [0; LENGTH];
    let mut patience = FIRST;
    while last + 1 < count {
        socket.set_read_timeout(Some(patience)).unwrap();
        let Ok(length) = socket.recv(&mut buffer) else { break };
        assert_eq!(length, LENGTH);
        let number = u32::from_be_bytes(buffer[..4].try_into().unwrap());
        missing = missing.max(number.saturating_sub(last + 1));
        last = number;
        (received, patience) = (received + 1, NEXT);
    }
    println!("\nreceived {received} last {last} missing {missing}");
}

fn send(to: &str, count: u32, rate: f64) {
    let socket = sender(to);
    let mut datagram = [0; LENGTH];
    for number in 0..count {
        datagram[..4].copy_from_slice(&number.to_be_bytes());
        // The error may belong to an earlier datagram: go on.
        let _ = socket.send_to(&datagram, to);
        // Never faster: a busy host stops the guest now and then, and a burst would be lost.
        std::thread::sleep(Duration::from_secs_f64(1.0 / rate));
    }
}

/// A socket that can send to an address.
fn sender(to: &str) -> UdpSocket {
    let any = if to.starts_with('[') { "[::]:0" } else { "0.0.0.0:0" };
    UdpSocket::bind(any).unwrap()
}

/// Answers each datagram with its content and its source address, until none comes for a while.
fn reflect(at: &str) {
    let socket = UdpSocket::bind(at).unwrap();
    println!("\nready");
    let mut buffer = [0; LENGTH];
    let (mut answered, mut patience) = (0, FIRST);
    loop {
        socket.set_read_timeout(Some(patience)).unwrap();
        let Ok((length, from)) = socket.recv_from(&mut buffer) else { break };
        let answer = [&buffer[..length], from.ip().to_string().as_bytes()].concat();
        socket.send_to(&answer, from).unwrap();
        (answered, patience) = (answered + 1, NEXT);
    }
    println!("\nreceived {answered}");
}

/// Sends a datagram to each of the ports, as an answer to one from there.
fn answer(from: &str, to: &str, first: u16, flows: u16) {
    let socket = UdpSocket::bind(from).unwrap();
    for port in first..first + flows {
        socket.send_to(&[0; LENGTH], (to, port)).unwrap();
    }
}

/// Sends a datagram of each flow in each round, and waits for its answer: the same content, and the
/// source address that the far end is to see.
fn exchange(to: &str, flows: u32, rounds: u32, pause: Duration, seen_as: &str) {
    let socket = |_| {
        let socket = sender(to);
        socket.connect(to).unwrap();
        socket.set_read_timeout(Some(NEXT)).unwrap();
        socket
    };
    let sockets: Vec<UdpSocket> = (0..flows).map(socket).collect();
    let (mut whole, mut lost, mut wrong) = (0, 0, 0);
    let mut buffer = [0; LENGTH];
    for round in 0..rounds {
        for (flow, socket) in (0_u32..).zip(&sockets) {
            let asked = [flow.to_be_bytes(), round.to_be_bytes()].concat();
            let _ = socket.send(&asked);
            match socket.recv(&mut buffer) {
                Ok(length) if buffer[..length] == [&asked, seen_as.as_bytes()].concat() => {
                    whole += 1
                }
                Ok(_) => wrong += 1,
                Err(_) => lost += 1,
            }
        }
        std::thread::sleep(pause);
    }
    println!("\nexchanged {whole} lost {lost} wrong {wrong}");
}

fn take(at: &str) {
    let listener = TcpListener::bind(at).unwrap();
    println!("\nready");
    let (mut stream, _) = listener.accept().unwrap();
    stream.set_read_timeout(Some(FIRST)).unwrap();
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).unwrap();
    let whole = bytes.iter().enumerate().all(|(place, byte)| *byte == pattern(place));
    println!("\nreceived {} {}", bytes.len(), if whole { "whole" } else { "wrong" });
}

fn give(to: &str, bytes: usize) {
    let text: Vec<u8> = (0..bytes).map(pattern).collect();
    TcpStream::connect(to).unwrap().write_all(&text).unwrap();
}

fn pattern(place: usize) -> u8 {
    (place % 251) as u8
}
