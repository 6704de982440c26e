//! The pipe to the browser: JSON, each message ended by a zero byte.

use serde_json::{Value, json};
use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Longest wait for an answer; machines that run tests are busy.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// Connection to a controlled browser.
pub struct Pipe {
    child: Child,
    to: ChildStdin,
    from: Receiver<Value>,
    events: VecDeque<Value>,
    number: u64,
    /// Its profile, removed when dropped.
    _profile: TempDir,
}

impl Pipe {
    /// Starts the browser. It reads descriptor 3 and writes descriptor 4
    /// (`--remote-debugging-pipe`), which a shell connects with the pipes of this process.
    pub fn start(program: &Path) -> Self {
        let profile = tempfile::tempdir().expect("a temporary folder");
        let mut command = Command::new("sh");
        let script = "exec \"$0\" \"$@\" 3<&0 4>&1 </dev/null >/dev/null 2>&1";
        command.args(["-c", script]).arg(program);
        // The sandbox needs rights that root in a container lacks; all pages are our own.
        command.args(["--headless", "--no-sandbox", "--remote-debugging-pipe"]);
        command.args([
            "--disable-gpu",
            "--hide-scrollbars",
            "--no-first-run",
            "--disable-extensions",
        ]);
        command.args(["--disable-background-networking", "--disable-component-update"]);
        command.arg(format!("--user-data-dir={}", profile.path().display()));
        command.arg("about:blank").stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("sh can be started");
        let to = child.stdin.take().expect("is piped");
        let mut output = BufReader::new(child.stdout.take().expect("is piped"));
        let (sender, from) = channel();
        std::thread::spawn(move || {
            let mut message = Vec::new();
            while output.read_until(0, &mut message).is_ok_and(|count| count > 0) {
                message.pop();
                let read = serde_json::from_slice(&message);
                message.clear();
                if read.is_ok_and(|value| sender.send(value).is_err()) {
                    break;
                }
            }
        });
        Self { child, to, from, events: VecDeque::new(), number: 0, _profile: profile }
    }

    /// Calls a method and waits for its answer.
    pub fn call(&mut self, session: Option<&str>, method: &str, parameters: &Value) -> Value {
        self.number += 1;
        let mut message = json!({ "id": self.number, "method": method, "params": parameters });
        if let Some(session) = session {
            message["sessionId"] = session.into();
        }
        let mut bytes = message.to_string().into_bytes();
        bytes.push(0);
        self.to.write_all(&bytes).expect("the browser listens");
        let deadline = Instant::now() + PATIENCE;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let message = self.from.recv_timeout(left).unwrap_or_else(|error| {
                panic!("{method}: {error}; the browser: {:?}", self.child.try_wait())
            });
            if message["id"] != self.number {
                self.events.push_back(message);
                continue;
            }
            assert!(message["error"].is_null(), "{method}: {}", message["error"]);
            return message["result"].clone();
        }
    }

    /// Returns the events received since the last call.
    pub fn events(&mut self) -> Vec<Value> {
        self.events.drain(..).collect()
    }
}

impl Drop for Pipe {
    fn drop(&mut self) {
        // A browser that is asked to close ends its helpers; one that is killed leaves them.
        let close = json!({ "id": self.number + 1, "method": "Browser.close" });
        let asked = self.to.write_all(format!("{close}\0").as_bytes());
        let deadline = Instant::now() + Duration::from_secs(10);
        while asked.is_ok() && Instant::now() < deadline {
            if matches!(self.child.try_wait(), Ok(Some(_))) {
                return;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
