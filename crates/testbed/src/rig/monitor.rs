//! The emulator's view of the guest, through its machine protocol (docs/interop/qmp-spec of QEMU):
//! registers, independent of the guest's software.

use crate::Error;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// Time limit of an answer of an emulator on shared processors.
const PATIENCE: Duration = Duration::from_secs(60);

/// A connection to the emulator.
#[derive(Debug)]
pub struct Monitor {
    stream: BufReader<UnixStream>,
}

impl Monitor {
    /// Negotiates with the emulator at the other end of `stream`.
    ///
    /// # Errors
    /// Fails when it does not answer.
    pub fn open(stream: UnixStream) -> Result<Self, Error> {
        stream
            .set_read_timeout(Some(PATIENCE))
            .and_then(|()| stream.set_write_timeout(Some(PATIENCE)))
            .map_err(|e| Error::io("connecting to the emulator", e))?;
        let mut monitor = Self { stream: BufReader::new(stream) };
        monitor.next()?;
        monitor.execute(&json!({ "execute": "qmp_capabilities" }))?;
        Ok(monitor)
    }

    /// Reads one byte of the machine's I/O ports.
    ///
    /// # Errors
    /// Fails when the emulator does not answer, or answers unexpectedly.
    pub fn port(&mut self, port: u16) -> Result<u8, Error> {
        let line = format!("i /1xb {port:#x}");
        let arguments = json!({ "command-line": line });
        let answer =
            self.execute(&json!({ "execute": "human-monitor-command", "arguments": arguments }))?;
        let text = answer.as_str().unwrap_or_default();
        parse_port(text).ok_or_else(|| unexpected(&format!("`{line}` was answered {text:?}")))
    }

    /// Reads words of the machine's memory, including registers of devices.
    ///
    /// # Errors
    /// Fails when the emulator does not answer, or answers unexpectedly.
    pub fn words(&mut self, address: u64, count: usize) -> Result<Vec<u32>, Error> {
        let line = format!("xp /{count}xw {address:#x}");
        let arguments = json!({ "command-line": line });
        let answer =
            self.execute(&json!({ "execute": "human-monitor-command", "arguments": arguments }))?;
        let text = answer.as_str().unwrap_or_default();
        parse_words(text)
            .filter(|words| words.len() == count)
            .ok_or_else(|| unexpected(&format!("`{line}` was answered {text:?}")))
    }

    /// Returns the state of the machine: `running`, `suspended` and others of QMP's `RunState`.
    ///
    /// # Errors
    /// Fails when the emulator does not answer, or answers unexpectedly.
    pub fn status(&mut self) -> Result<String, Error> {
        let answer = self.execute(&json!({ "execute": "query-status" }))?;
        let status = answer["status"].as_str();
        status.map(str::to_owned).ok_or_else(|| unexpected(&format!("its status is {answer}")))
    }

    /// Wakes a suspended machine.
    ///
    /// # Errors
    /// Fails when the emulator does not answer, or refuses.
    pub fn wake(&mut self) -> Result<(), Error> {
        self.execute(&json!({ "execute": "system_wakeup" })).map(drop)
    }

    fn execute(&mut self, command: &Value) -> Result<Value, Error> {
        let failed = |e| Error::io("talking to the emulator", e);
        writeln!(self.stream.get_mut(), "{command}").map_err(failed)?;
        loop {
            // Skips events.
            let mut answer = self.next()?;
            if let Some(result) = answer.get_mut("return") {
                return Ok(result.take());
            }
            if let Some(error) = answer.get("error") {
                return Err(unexpected(&format!("{command} was answered {error}")));
            }
        }
    }

    fn next(&mut self) -> Result<Value, Error> {
        let mut line = String::new();
        let read = self.stream.read_line(&mut line);
        read.map_err(|e| Error::io("listening to the emulator", e))?;
        serde_json::from_str(&line).map_err(|_| unexpected(&format!("it said {line:?}")))
    }
}

/// Parses the value of `portb[0x02ff] = 0x21`.
fn parse_port(text: &str) -> Option<u8> {
    let value = text.split_once('=')?.1.trim().strip_prefix("0x")?;
    u8::from_str_radix(value, 16).ok()
}

/// Parses the values of lines such as `00000000febc5c00: 0x00000000 0x00000001`.
fn parse_words(text: &str) -> Option<Vec<u32>> {
    let values = text.lines().filter_map(|line| line.split_once(':')).flat_map(|(_, values)| {
        values
            .split_whitespace()
            .map(|value| u32::from_str_radix(value.strip_prefix("0x")?, 16).ok())
    });
    values.collect()
}

fn unexpected(what: &str) -> Error {
    Error::Rig { what: format!("the emulator's monitor: {what}"), console: String::new() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn port_is_parsed_from_the_monitors_answer() {
        assert_eq!(parse_port("portb[0x02ff] = 0x21\r\n"), Some(0x21));
        for text in ["", "portb[0x02ff] =", "portb[0x02ff] = 0x", "unknown command: 'i'"] {
            assert_eq!(parse_port(text), None, "{text:?}");
        }
    }

    #[test]
    fn registers_are_parsed_from_the_monitors_answer() {
        let text = "00000000febc5c00: 0x00000000 0x01010101\r\n00000000febc5c08: 0x000000ff\r\n";
        assert_eq!(parse_words(text), Some(vec![0, 0x0101_0101, 0xff]));
        assert_eq!(parse_words("00000000febc5c00: 0x0000000g"), None);
    }

    #[test]
    fn events_before_an_answer_are_skipped() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let emulator = std::thread::spawn(move || {
            let mut lines = BufReader::new(theirs.try_clone().unwrap()).lines();
            let say = |text: &str| writeln!(&theirs, "{text}").unwrap();
            say(r#"{"QMP":{}}"#);
            lines.next().unwrap().unwrap();
            say(r#"{"return":{}}"#);
            lines.next().unwrap().unwrap();
            say(r#"{"event":"STOP"}"#);
            say(r#"{"return":"portb[0x02ef] = 0x10\r\n"}"#);
            lines.next().unwrap().unwrap();
            say(r#"{"error":{"class":"GenericError"}}"#);
        });
        let mut monitor = Monitor::open(ours).unwrap();
        assert_eq!(monitor.port(0x2ef).unwrap(), 16);
        let refused = monitor.port(0x2ef).unwrap_err().to_string();
        assert!(refused.contains("GenericError"), "{refused}");
        emulator.join().unwrap();
        assert!(monitor.port(0x2ef).is_err(), "gone");
    }
}
