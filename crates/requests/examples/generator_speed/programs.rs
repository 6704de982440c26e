//! Other programs' requests and processor time.

use crate::support::program;
use std::io;
use std::net::SocketAddr;
use std::process::Stdio;
use std::time::Duration;

/// Ticks of `/proc/PID/stat` in a second: `USER_HZ`, the same on all architectures that Wattline
/// runs on.
const TICKS: f64 = 100.0;

/// Seconds of processor time and requests of a program's run; `None` if the program is absent.
pub type Spent = Option<(f64, u64)>;

/// Runs a program to its end and returns its standard output and its processor time.
fn run(name: &str, arguments: &[String]) -> io::Result<Option<(String, f64)>> {
    let Some(mut command) = program(name) else { return Ok(None) };
    let output = std::env::temp_dir().join(format!("wattline-{name}-{}", std::process::id()));
    command.args(arguments).stdin(Stdio::null()).stderr(Stdio::null());
    let mut child = command.stdout(std::fs::File::create(&output)?).spawn()?;
    // A program that has ended keeps its times until it is waited for.
    let stat = format!("/proc/{}/stat", child.id());
    let times = loop {
        let text = std::fs::read_to_string(&stat)?;
        // The name before may hold blanks; the state is the first field behind it.
        let fields: Vec<&str> = match text.rsplit_once(')') {
            Some((_, rest)) => rest.split_ascii_whitespace().collect(),
            None => Vec::new(),
        };
        if fields.first() == Some(&"Z") {
            let ticks = |field: usize| fields.get(field)?.parse::<f64>().ok();
            break ticks(11).zip(ticks(12)).map(|(user, kernel)| (user + kernel) / TICKS);
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    child.wait()?;
    let text = std::fs::read_to_string(&output)?;
    let _ = std::fs::remove_file(&output);
    Ok(times.map(|times| (text, times)))
}

/// Returns the number that the program prints after `before`.
fn number(text: &str, before: &str) -> Option<u64> {
    let rest = text.split_once(before)?.1.trim_start();
    rest.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

/// memcached's own generator, under the name of its package: 64-byte keys, 10 % sets.
pub fn memcaslap(
    address: SocketAddr,
    connections: usize,
    value_bytes: usize,
    seconds: u64,
) -> io::Result<Spent> {
    let arguments = [
        format!("--servers={address}"),
        "--threads=1".into(),
        format!("--concurrency={connections}"),
        format!("--fixed_size={value_bytes}"),
        format!("--time={seconds}s"),
    ];
    let ran = run("memcaslap", &arguments)?;
    Ok(ran.and_then(|(text, cpu)| Some((cpu, number(&text, "Ops:")?))))
}

/// wrk.
pub fn wrk(page: &str, connections: usize, seconds: u64) -> io::Result<Spent> {
    let arguments =
        ["-t1".into(), format!("-c{connections}"), format!("-d{seconds}s"), page.to_owned()];
    let ran = run("wrk", &arguments)?;
    let requests = |text: &str| {
        let line = text.lines().find(|line| line.contains(" requests in "))?;
        line.split_ascii_whitespace().next()?.parse().ok()
    };
    Ok(ran.and_then(|(text, cpu)| Some((cpu, requests(&text)?))))
}

/// h2load with HTTP/1.1.
pub fn h2load(page: &str, connections: usize, seconds: u64) -> io::Result<Spent> {
    let arguments = [
        "--h1".into(),
        "-t1".into(),
        format!("-c{connections}"),
        format!("-D{seconds}"),
        page.to_owned(),
    ];
    let ran = run("h2load", &arguments)?;
    Ok(ran.and_then(|(text, cpu)| Some((cpu, number(&text, "requests:")?))))
}
