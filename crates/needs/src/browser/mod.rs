//! Tests of pages and of the dashboard in a headless browser.
//!
//! [`Browser`] drives a headless Chromium by the DevTools protocol over a pipe
//! (chromedevtools.github.io/devtools-protocol), without driver and without port. [`look`] opens a
//! page wide and narrow, light and dark, and reports its problems. Without Chromium, tests report
//! that they are skipped.

mod look;
mod pipe;

pub use look::{Views, look};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use pipe::{PATIENCE, Pipe};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// A browser with one page; dropping the value ends it.
pub struct Browser {
    pipe: Pipe,
    session: String,
    complaints: Vec<String>,
    requests: Vec<String>,
}

/// Size and colour scheme of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct View {
    /// Width in pixels.
    pub width: u32,
    /// Height in pixels.
    pub height: u32,
    /// True for the dark colour scheme.
    pub dark: bool,
}

impl Browser {
    /// Starts a browser. Returns `None` if Chromium is not installed, which is reported with the
    /// name of the test.
    ///
    /// # Panics
    /// If it is installed but does not start.
    pub fn start(test: &str) -> Option<Self> {
        let names = ["/usr/bin/chromium", "/usr/bin/chromium-browser"];
        let Some(program) = names.iter().map(Path::new).find(|path| path.exists()) else {
            crate::skip(Some(test), crate::Need::Tool, "chromium");
            return None;
        };
        let mut pipe = Pipe::start(program);
        let target = pipe.call(None, "Target.createTarget", &json!({ "url": "about:blank" }));
        let attach = json!({ "targetId": target["targetId"], "flatten": true });
        let session = pipe.call(None, "Target.attachToTarget", &attach);
        let session = session["sessionId"].as_str().expect("a session").to_owned();
        let mut browser = Self { pipe, session, complaints: Vec::new(), requests: Vec::new() };
        for domain in ["Page", "Runtime", "Log", "Network"] {
            browser.call(&format!("{domain}.enable"), &json!({}));
        }
        Some(browser)
    }

    /// Sets the size and colour scheme of the page.
    pub fn set_view(&mut self, view: View) {
        let View { width, height, dark } = view;
        let metrics = json!({
            "width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500,
        });
        self.call("Emulation.setDeviceMetricsOverride", &metrics);
        let scheme = if dark { "dark" } else { "light" };
        let feature = json!({ "name": "prefers-color-scheme", "value": scheme });
        self.call("Emulation.setEmulatedMedia", &json!({ "features": [feature] }));
    }

    /// Renders the open page as for printing, or for the screen again.
    pub fn set_print(&mut self, print: bool) {
        let media = if print { "print" } else { "screen" };
        self.call("Emulation.setEmulatedMedia", &json!({ "media": media }));
    }

    /// Opens a page and waits until it is loaded; forgets earlier complaints and requests.
    ///
    /// # Panics
    /// If it does not load in time.
    pub fn open(&mut self, url: &str) {
        self.call("Page.navigate", &json!({ "url": "about:blank" }));
        self.until("document.readyState === 'complete' && location.href === 'about:blank'");
        self.complaints.clear();
        self.requests.clear();
        let answer = self.call("Page.navigate", &json!({ "url": url }));
        assert!(answer["errorText"].is_null(), "{url}: {}", answer["errorText"]);
        self.until("document.readyState === 'complete' && location.href !== 'about:blank'");
    }

    /// Returns the value of an expression in JavaScript on the page.
    ///
    /// # Panics
    /// If it throws.
    pub fn value(&mut self, expression: &str) -> Value {
        let asked =
            json!({ "expression": expression, "returnByValue": true, "awaitPromise": true });
        let answer = self.call("Runtime.evaluate", &asked);
        assert!(answer["exceptionDetails"].is_null(), "{expression}: {answer:#}");
        answer["result"]["value"].clone()
    }

    /// Waits until an expression is true.
    ///
    /// # Panics
    /// If that takes too long.
    pub fn until(&mut self, expression: &str) {
        let deadline = Instant::now() + PATIENCE;
        while self.value(expression) != Value::Bool(true) {
            if Instant::now() > deadline {
                let text = self.value("document.body && document.body.innerText");
                panic!("not in time: {expression}\n{:?}\n{text}", self.complaints);
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Returns the visible text of the page.
    pub fn text(&mut self) -> String {
        self.value("document.body.innerText").as_str().unwrap_or_default().to_owned()
    }

    /// Returns errors and warnings of scripts, of loading and of the page's security policy.
    pub fn complaints(&mut self) -> Vec<String> {
        self.value("1");
        self.complaints.clone()
    }

    /// Returns the addresses that the page has requested, its own included.
    pub fn requests(&mut self) -> Vec<String> {
        self.value("1");
        self.requests.clone()
    }

    /// Keeps a picture as `NAME.png` in the folder given by `WATTLINE_SCREENSHOTS`, of the whole
    /// page or of the visible part. Does nothing without that variable.
    ///
    /// # Panics
    /// If it cannot be written.
    pub fn picture(&mut self, name: &str, whole: bool) {
        let Some(folder) = std::env::var_os("WATTLINE_SCREENSHOTS") else { return };
        let asked = json!({ "format": "png", "captureBeyondViewport": whole });
        let answer = self.call("Page.captureScreenshot", &asked);
        let bytes = STANDARD.decode(answer["data"].as_str().unwrap_or_default()).expect("base64");
        std::fs::create_dir_all(&folder).expect("the folder can be made");
        let path = PathBuf::from(folder).join(format!("{name}.png"));
        std::fs::write(path, bytes).expect("the picture can be written");
    }

    fn call(&mut self, method: &str, parameters: &Value) -> Value {
        let session = self.session.clone();
        let answer = self.pipe.call(Some(&session), method, parameters);
        for event in self.pipe.events() {
            self.note(&event);
        }
        answer
    }

    fn note(&mut self, event: &Value) {
        let parameters = &event["params"];
        match event["method"].as_str().unwrap_or_default() {
            "Runtime.exceptionThrown" => {
                self.complaints.push(parameters["exceptionDetails"].to_string());
            }
            "Runtime.consoleAPICalled"
                if matches!(parameters["type"].as_str(), Some("error" | "warning" | "assert")) =>
            {
                self.complaints.push(parameters["args"].to_string());
            }
            "Log.entryAdded"
                if matches!(parameters["entry"]["level"].as_str(), Some("error" | "warning")) =>
            {
                let entry = &parameters["entry"];
                self.complaints.push(format!("{} {}", entry["text"], entry["url"]));
            }
            "Network.requestWillBeSent" => {
                let url = parameters["request"]["url"].as_str().unwrap_or_default();
                self.requests.push(url.to_owned());
            }
            _ => {}
        }
    }
}

/// Returns the address of a file for a browser.
pub fn url_of(path: &Path) -> String {
    let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    format!("file://{}", path.display())
}
