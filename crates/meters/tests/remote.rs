//! Remote meters against servers in this process: Prometheus, an exporter's page, a management
//! controller behind TLS, and all kinds of server faults.

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use wattline_linux::sysfs::Tree;
use wattline_meters::{Meter, Reading, Rejection, Survey, survey};
use wattline_units::{Accuracy, Span, Time};

fn certificate(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/tls").join(name)
}

/// Answers each request, given as its head and body, until the process ends.
fn serve(tls: Option<&str>, answer: impl Fn(&str) -> String + Send + 'static) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let config = tls.map(|name| {
        let chain = vec![CertificateDer::from_pem_file(certificate(name)).unwrap()];
        let key = PrivateKeyDer::from_pem_file(certificate("key.pem")).unwrap();
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let builder = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap();
        Arc::new(builder.with_no_client_auth().with_single_cert(chain, key).unwrap())
    });
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            match &config {
                None => exchange(&mut stream, &answer),
                Some(config) => {
                    let server = rustls::ServerConnection::new(config.clone()).unwrap();
                    exchange(&mut rustls::StreamOwned::new(server, stream), &answer);
                }
            }
        }
    });
    port
}

fn exchange(stream: &mut (impl Read + Write), answer: impl Fn(&str) -> String) {
    let (mut request, mut buffer) = (String::new(), [0; 4096]);
    while !request.contains("\r\n\r\n") || request.starts_with("POST") && !request.ends_with('}') {
        match stream.read(&mut buffer) {
            Ok(count @ 1..) => request.push_str(&String::from_utf8_lossy(&buffer[..count])),
            _ => return,
        }
    }
    let _ = stream.write_all(answer(&request).as_bytes()).and_then(|()| stream.flush());
}

fn page(body: &str) -> String {
    let length = body.len();
    format!("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n{body}")
}

fn status(line: &str) -> String {
    format!("HTTP/1.1 {line}\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")
}

/// A machine with this file of meters, and credentials of this mode.
struct Machine {
    root: tempfile::TempDir,
}

impl Machine {
    fn new(settings: &str, mode: u32) -> Self {
        let root = tempfile::tempdir().unwrap();
        let directory = root.path().join("etc/wattline");
        std::fs::create_dir_all(&directory).unwrap();
        for name in ["own.pem", "other.pem", "expired.pem"] {
            std::fs::copy(certificate(name), directory.join(name)).unwrap();
        }
        let secret = directory.join("secret.toml");
        std::fs::write(&secret, "user = \"root\"\npassword = \"calvin\"\n").unwrap();
        std::fs::set_permissions(&secret, std::fs::Permissions::from_mode(mode)).unwrap();
        std::fs::write(directory.join("meters.toml"), settings).unwrap();
        Self { root }
    }

    fn survey(&self) -> Survey {
        survey(&Tree::at(self.root.path()))
    }

    fn refused(&self) -> String {
        let Survey { meters, missing } = self.survey();
        assert!(meters.is_empty());
        missing.iter().map(|missing| format!("{}: {}\n", missing.what, missing.why)).collect()
    }
}

fn meter(name: &str, more: &str) -> String {
    format!("[[meter]]\nname = '{name}'\nperiod = \"100ms\"\n{more}\n")
}

const SECRET: &str = "credentials = \"/etc/wattline/secret.toml\"";
const PIN: &str = "certificate = \"/etc/wattline/own.pem\"";

/// Reads the first meter until it gives a result other than [`Rejection::NothingNew`].
fn read(meters: &mut [Box<dyn Meter>]) -> Result<Reading, Rejection> {
    let began = Instant::now();
    loop {
        match meters[0].read(Time::ZERO + Span::from(began.elapsed())) {
            Err(Rejection::NothingNew) if began.elapsed() < Duration::from_secs(30) => {
                std::thread::sleep(Duration::from_millis(5));
            }
            other => return other,
        }
    }
}

/// Returns the reason for a meter's missing value.
fn failure(settings: &str) -> String {
    let machine = Machine::new(settings, 0o600);
    let Survey { mut meters, missing } = machine.survey();
    assert!(missing.iter().all(|missing| !missing.what.contains("://")), "{missing:?}");
    read(&mut meters).unwrap_err().to_string()
}

#[test]
fn server_and_page_give_their_watts_and_the_stated_class() {
    let vector = r#"{"status":"success","data":{"resultType":"vector","result":[{"metric":{},"value":[1,"212.5"]}]}}"#;
    let asked = Arc::new(Mutex::new(String::new()));
    let seen = Arc::clone(&asked);
    let port = serve(None, move |request| {
        request.clone_into(&mut seen.lock().unwrap());
        page(if request.contains("/metrics") { "pdu_watts{outlet=\"7\"} 90.25\n" } else { vector })
    });
    let query = format!("prometheus:http://127.0.0.1:{port}#sum(pdu_watts{{outlet=~\"7|8\"}})");
    let machine = Machine::new(&meter(&query, "lag = \"2s\"\naccuracy = \"silver\""), 0o600);
    let mut meters = machine.survey().meters;
    let first = read(&mut meters).unwrap();
    assert_eq!((first.power.get(), first.elapsed), (212.5, Span::ZERO));
    assert_eq!(first.provenance.accuracy, Accuracy::Silver);
    assert_eq!(meters[0].timing().lag, Span::from_millis(2_000));
    let second = read(&mut meters).unwrap();
    assert!(second.elapsed > Span::ZERO, "it asks again");
    let request = asked.lock().unwrap().clone();
    assert!(request.starts_with("GET /api/v1/query?query=sum(pdu_watts"), "{request}");
    assert!(request.contains("%22") && !request.contains("authorization"), "{request}");

    let line = format!("prometheus:http://127.0.0.1:{port}/metrics#pdu_watts{{outlet=\"7\"}}");
    let mut meters = Machine::new(&meter(&line, SECRET), 0o600).survey().meters;
    assert_eq!(read(&mut meters).unwrap().power.get(), 90.25);
    assert_eq!(meters[0].description().provenance.accuracy, Accuracy::Bronze);
    // user and password of the file, by the basic scheme
    assert!(asked.lock().unwrap().contains("Basic cm9vdDpjYWx2aW4="));
}

fn controller(request: &str) -> String {
    let path = request.split(' ').nth(1).unwrap_or_default();
    page(match path {
        "/redfish/v1/Chassis" => r#"{"Members":[{"@odata.id":"/redfish/v1/Chassis/1"}]}"#,
        "/redfish/v1/Chassis/1" => {
            r#"{"EnvironmentMetrics":{"@odata.id":"/redfish/v1/Chassis/1/EnvironmentMetrics"},
                "Power":{"@odata.id":"/redfish/v1/Chassis/1/Power"}}"#
        }
        "/redfish/v1/Chassis/1/EnvironmentMetrics" => "{}",
        "/redfish/v1/Chassis/1/Power" => r#"{"PowerControl":[{"PowerConsumedWatts":344}]}"#,
        _ => return status("404 Not Found"),
    })
}

#[test]
fn controller_is_found_below_its_chassis_with_a_pinned_certificate() {
    let port = serve(Some("own.pem"), |request| {
        if request.contains("Basic cm9vdDpjYWx2aW4=") {
            controller(request)
        } else {
            status("401 No")
        }
    });
    // The certificate is for another name, and an authority: a controller's own.
    let name = format!("redfish:https://127.0.0.1:{port}");
    let mut meters =
        Machine::new(&meter(&name, &format!("{PIN}\n{SECRET}")), 0o600).survey().meters;
    assert_eq!(read(&mut meters).unwrap().power.get(), 344.0);
}

#[test]
fn session_is_opened_renewed_and_closed() {
    let log = Arc::new(Mutex::new((0, 0, 0)));
    let seen = Arc::clone(&log);
    let port = serve(Some("own.pem"), move |request| {
        let mut log = seen.lock().unwrap();
        if request.starts_with("POST /redfish/v1/SessionService/Sessions") {
            assert!(request.contains(r#""Password":"calvin""#), "{request}");
            log.0 += 1;
            return format!(
                "HTTP/1.1 201 Created\r\nX-Auth-Token: t{}\r\nLocation: /redfish/v1/S/{}\r\n\
                 Connection: close\r\nContent-Length: 2\r\n\r\n{{}}",
                log.0, log.0
            );
        }
        if !request.to_lowercase().contains(&format!("x-auth-token: t{}", log.0)) {
            return status("401 Unauthorized");
        }
        if request.starts_with("DELETE") {
            log.2 += 1;
            return status("204 No Content");
        }
        log.1 += 1;
        // The session expires once.
        if log.1 == 2 { status("401 Unauthorized") } else { controller(request) }
    });
    let name = format!("redfish:https://127.0.0.1:{port}/redfish/v1/Chassis/1/Power");
    let more = format!("{PIN}\n{SECRET}\nsession = true");
    let mut meters = Machine::new(&meter(&name, &more), 0o600).survey().meters;
    for _ in 0..3 {
        assert_eq!(read(&mut meters).unwrap().power.get(), 344.0);
    }
    drop(meters);
    wattline_needs::until("the session is ended", || log.lock().unwrap().2 > 0);
    assert_eq!(log.lock().unwrap().0, 2, "one login, and one renewal");
}

#[test]
fn failing_server_gives_a_reason_and_no_value() {
    let redfish =
        |port: u16| format!("redfish:https://127.0.0.1:{port}/redfish/v1/Chassis/1/Power");
    let expired = "certificate = \"/etc/wattline/expired.pem\"";
    let other = "certificate = \"/etc/wattline/other.pem\"";
    let good = serve(Some("own.pem"), controller);
    let old = serve(Some("expired.pem"), controller);
    for (settings, says) in [
        (meter(&redfish(good), ""), "TLS failed"),
        (meter(&redfish(good), other), "TLS failed"),
        (meter(&redfish(old), expired), "expired"),
    ] {
        let why = failure(&settings);
        assert!(why.contains(says) && why.contains("`certificate`"), "{says}: {why}");
    }
    for (answer, says) in [
        (status("401 Unauthorized"), "answers 401 Unauthorized: it wants other credentials"),
        (status("302 Found\r\nLocation: http://127.0.0.1:1/"), "redirects are not followed"),
        (status("503 Service Unavailable"), "answers 503"),
        (page("<html>nonsense"), "no JSON"),
        (page(r#"{"PowerControl":[{"PowerConsumedWatts":null}]}"#), "expected watts"),
        (page(r#"{"PowerControl":[{"PowerConsumedWatts":0}]}"#), "not plausible"),
        (page(r#"{"PowerControl":[{"PowerConsumedWatts":1e9}]}"#), "not plausible"),
        (page(&"x".repeat(5 << 20)), "longer than"),
        ("SSH-2.0-x\r\n".to_owned(), "http"),
        (String::new(), ""),
    ] {
        let port = serve(Some("own.pem"), move |_| answer.clone());
        let why = failure(&meter(&redfish(port), PIN));
        assert!(why.to_lowercase().contains(&says.to_lowercase()), "{says}: {why}");
    }
}

/// No reader waits for the server, and the time without an answer is bounded.
#[test]
fn silent_and_trickling_servers_delay_no_reader() {
    let port = serve(None, |_| {
        std::thread::sleep(Duration::from_secs(3_600));
        String::new()
    });
    let machine = Machine::new(&meter(&format!("prometheus:http://127.0.0.1:{port}#w"), ""), 0o600);
    let mut meters = machine.survey().meters;
    let began = Instant::now();
    assert_eq!(meters[0].read(Time::ZERO), Err(Rejection::NothingNew));
    assert!(began.elapsed() < Duration::from_secs(1), "{:?}", began.elapsed());
    let why = read(&mut meters).unwrap_err().to_string();
    assert!(why.contains("no answer within 10 s"), "{why}");
}

#[test]
fn shipped_example_is_read() {
    let example = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/meters/meters.toml");
    let text = std::fs::read_to_string(example).unwrap();
    let Survey { meters, missing } = Machine::new(&text, 0o600).survey();
    let missing: Vec<_> = missing.iter().filter(|it| it.what.contains(':')).collect();
    assert_eq!((meters.len(), missing.len()), (2, 1), "{missing:?}");
    assert!(missing[0].why.contains("bmc.toml"), "its credentials are the operator's: {missing:?}");
}

#[test]
fn leaking_or_invalid_settings_are_refused() {
    let url = "redfish:https://127.0.0.1:1";
    for (settings, says) in [
        (meter("redfish:https://root:calvin@bmc", ""), "put them into a file"),
        (meter("redfish:http://bmc", ""), "expected redfish:https://"),
        (meter("prometheus:http://10.0.0.1#w", SECRET), "https alone"),
        (meter("prometheus:http://127.0.0.1.example#w", SECRET), "https alone"),
        (meter("prometheus:ftp://h#w", ""), "expected an address"),
        (meter("modbus:x", ""), "expected prometheus:URL#QUERY or redfish:"),
        (meter(url, "accuracy = \"learned\""), "expected gold, silver or bronze"),
        (meter(url, "lag = \"2\""), "lag: \"2\" is not"),
        (meter(url, "lag = \"1h\""), "lag: 1h, expected"),
        (meter(url, "certificate = \"/etc/wattline/meters.toml\""), "certificate"),
        (meter(url, "credentials = \"/etc/wattline/own.pem\""), "chmod 600"),
        (meter(url, "watts = 3"), "unknown field `watts`"),
        (meter(url, "credentials = \"/none\""), "No such file"),
    ] {
        let why = Machine::new(&settings, 0o600).refused();
        assert!(why.contains(says), "{says}: {why}");
        assert!(!why.contains("calvin") || says.contains("file"), "{why}");
    }
    for mode in [0o604, 0o640, 0o620] {
        let why = Machine::new(&meter(url, &format!("{SECRET}\n{PIN}")), mode).refused();
        assert!(why.contains("chmod 600"), "{mode:o}: {why}");
    }
    let twice = format!("{0}{0}", meter("prometheus:http://127.0.0.1:1#w", ""));
    let Survey { meters, missing } = Machine::new(&twice, 0o600).survey();
    assert_eq!(meters.len(), 1);
    assert!(missing.iter().any(|missing| missing.why.contains("named twice")), "{missing:?}");
}
