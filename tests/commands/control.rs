//! The control socket of a governor: its clients, its rights, and the reports of a reload.

use crate::copy::copy;
use crate::govern::running::{Machine, SAMPLED};
use crate::program::{document, ended_with};
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt, chown};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use wattline_daemon::socket::{Request, ask};
use wattline_needs::until;

fn run(machine: &Machine, arguments: &[&str]) -> Output {
    let mut command = Command::new(wattline_needs::program());
    command.args(arguments).arg("--socket").arg(machine.socket()).output().unwrap()
}

#[test]
fn reload_reports_changes_that_need_a_restart_or_are_refused() {
    let mut machine = Machine::new();
    machine.start("");
    assert_eq!(run(&machine, &["reload"]).status.code(), Some(0));
    let own = fs::read_to_string(machine.path("govern.toml")).unwrap();
    let other = own.replace(&format!("127.0.0.1:{}", machine.metrics), "127.0.0.1:1");
    machine.write("govern.toml", &other);
    for json in [false, true] {
        let reload = run(&machine, if json { &["reload", "--json"] } else { &["reload"] });
        ended_with(&reload, 75, &["not in force before a restart: [metrics] listen"]);
        let answer: Option<serde_json::Value> = serde_json::from_slice(&reload.stdout).ok();
        assert_eq!(answer.is_some(), json);
    }
    let stats = String::from_utf8(run(&machine, &["stats"]).stdout).unwrap();
    assert!(stats.contains("not in force before a restart: [metrics] listen"), "{stats}");
    let config = document(&run(&machine, &["show", "config", "--json"]));
    let setting = |list: &str, section: &str, key: &str| {
        let settings = config[list].as_array().unwrap();
        let found = settings.iter().find(|it| it["section"] == section && it["key"] == key);
        found.map(|it| it["value"].as_str().unwrap().to_owned())
    };
    let listens = format!("\"127.0.0.1:{}\"", machine.metrics);
    assert_eq!(setting("settings", "[metrics]", "listen"), Some(listens), "{config}");
    assert_eq!(setting("waiting", "[metrics]", "listen").as_deref(), Some("\"127.0.0.1:1\""));
    assert_eq!(setting("settings", "[govern]", "profile").as_deref(), Some("\"balanced\""));
    machine.write("govern.toml", "nonsense");
    let refused = run(&machine, &["reload"]);
    assert_eq!(refused.status.code(), Some(78), "{refused:?}");
    until("the service manager hears of it", || {
        let message = machine.notification();
        message.contains("STATUS=the configuration stays as it was")
    });
    machine.signal("-HUP");
    machine.logs("ERROR the configuration stays as it was");
    machine.write("govern.toml", &own);
    assert_eq!(run(&machine, &["reload"]).status.code(), Some(0));
    let stats = String::from_utf8(run(&machine, &["stats"]).stdout).unwrap();
    assert!(!stats.contains("before a restart"), "{stats}");
}

/// One client at a time holds a point; the policy decides again when the client ends that or is silent.
#[test]
fn client_holds_an_operating_point_until_it_ends_or_is_silent() {
    let mut machine = Machine::new();
    machine.start(SAMPLED);
    until("the policy slows an idle machine", || machine.speed(0) == "1600000");
    let hold = |owner: &str, cores, kilohertz, seconds| {
        let owner = owner.to_owned();
        ask(&machine.socket(), Request::Hold { owner, cores, kilohertz, seconds })
    };
    let held = hold("a", 2, 0, 60).unwrap();
    assert_eq!((&held["cores"], &held["under_way"]), (&2.into(), &false.into()), "{held}");
    let fastest = held["frequencies_hertz"].as_array().unwrap().last().unwrap().as_f64().unwrap();
    assert_eq!(held["frequency_hertz"], serde_json::json!([fastest, fastest]));
    let kilohertz = format!("{:.0}", fastest / 1e3);
    assert_eq!([machine.speed(0), machine.speed(1)], [&kilohertz[..]; 2]);
    let refused = |answer: Result<serde_json::Value, _>| {
        let error: wattline_daemon::socket::SocketError = answer.unwrap_err();
        error.to_string()
    };
    let other = refused(hold("b", 2, 1_600_000, 60));
    assert!(other.contains("\"a\" holds the operating point"), "{other}");
    let other = refused(hold("a", 3, 0, 60));
    assert!(other.contains("cores = 3: allowed is 1 to 2"), "{other}");
    assert_eq!(machine.speed(0), kilohertz, "refusals change nothing");
    let release =
        |owner: &str| ask(&machine.socket(), Request::Release { owner: owner.to_owned() });
    assert!(refused(release("b")).contains("\"a\" holds"));
    release("a").unwrap();
    until("the policy decides again", || machine.speed(0) == "1600000");
    hold("b", 2, 0, 1).unwrap();
    assert_eq!(machine.speed(1), kilohertz);
    until("a silent client's lease ends", || machine.speed(1) == "1600000");
    machine.signal("-TERM");
    assert_eq!(machine.ended(), Some(0), "{}", machine.log());
    assert!(machine.is_as_before(), "{:?}", machine.differences());
}

/// The value of a field in the status of each thread of a process, with the threads' names.
fn thread_fields(process: u32, field: &str) -> Vec<(String, String)> {
    let tasks = fs::read_dir(format!("/proc/{process}/task")).unwrap();
    let status = |task: fs::DirEntry| fs::read_to_string(task.path().join("status")).ok();
    let value = |status: &str, field: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(&format!("{field}:\t")));
        line.unwrap().trim().to_owned()
    };
    let statuses = tasks.filter_map(|task| status(task.unwrap()));
    statuses.map(|status| (value(&status, "Name"), value(&status, field))).collect()
}

/// Threads that serve clients have none of root's rights.
#[test]
fn threads_that_serve_clients_have_no_capabilities() {
    let mut machine = Machine::new();
    let port = crate::metrics::free_port();
    machine.start_with("", &["--dashboard", &format!("127.0.0.1:{port}")]);
    let control = UnixStream::connect(machine.socket()).unwrap();
    (&control).write_all(b"{\"request\":\"stats\"}\n").unwrap();
    BufReader::new(&control).read_line(&mut String::new()).unwrap();
    let mut metrics = TcpStream::connect(("127.0.0.1", machine.metrics)).unwrap();
    metrics.write_all(b"GET ").unwrap();
    let mut page = TcpStream::connect(("127.0.0.1", port)).unwrap();
    page.write_all(b"GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    page.read_exact(&mut [0; 12]).unwrap();
    let process = machine.process();
    // For each socket a thread that accepts and one for the connection; one more for the dashboard.
    for (name, count) in [("control", 2), ("metrics", 2), ("dashboard", 3), ("log", 1)] {
        let of_name = |field: &str| -> Vec<String> {
            let all = thread_fields(process, field).into_iter();
            all.filter(|(its, _)| its == name).map(|(_, value)| value).collect()
        };
        until(&format!("{count} threads {name}"), || of_name("CapEff").len() == count);
        for field in ["CapEff", "CapPrm", "CapInh", "CapAmb"] {
            until(&format!("{name} has none"), || {
                of_name(field).iter().all(|value| value == "0000000000000000")
            });
        }
        until(name, || of_name("NoNewPrivs").iter().all(|value| value == "1"));
    }
}

/// A directory with the victim's name among temporary files, which another user has made first.
#[test]
fn socket_directory_of_another_user_is_not_used() {
    const VICTIM: u32 = 65534;
    const SQUATTER: u32 = 1234;
    if !rustix::process::geteuid().is_root() {
        return wattline_needs::rights("root, for two other users");
    }
    let folder = tempfile::tempdir().unwrap();
    let open = |path: &Path, mode| {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    };
    open(folder.path(), 0o755);
    let program = folder.path().join("wattline");
    crate::copy_program(&program);
    let tree = folder.path().join("tree");
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../crates/knobs/tests/fixtures");
    copy(&fixtures.join("acpi-cpufreq"), &tree);
    assert!(Command::new("chown").args(["-R", "65534"]).arg(&tree).status().unwrap().success());
    let temporary = folder.path().join("tmp");
    fs::create_dir(&temporary).unwrap();
    open(&temporary, 0o1777);
    let squatted = temporary.join(format!("wattline-{VICTIM}"));
    fs::DirBuilder::new().mode(0o777).create(&squatted).unwrap();
    open(&squatted, 0o777);
    chown(&squatted, Some(SQUATTER), None).unwrap();
    let victim = |arguments: &[&str]| {
        let mut command = Command::new(&program);
        command.args(arguments).env_remove("XDG_RUNTIME_DIR").env("TMPDIR", &temporary);
        command.uid(VICTIM).gid(VICTIM).stdin(Stdio::null());
        command
    };
    let errors = |output: Output| String::from_utf8(output.stderr).unwrap();
    let refused = |output: Output| {
        let message = errors(output);
        assert!(message.contains("it belongs to user 1234"), "{message}");
        assert!(message.contains("XDG_RUNTIME_DIR"), "a remedy: {message}");
    };
    let tree = tree.to_str().unwrap();
    refused(victim(&["govern", "--root", tree]).output().unwrap());
    refused(victim(&["stop"]).output().unwrap());
    // A link to a directory of his own is no better.
    fs::remove_dir(&squatted).unwrap();
    let own = folder.path().join("own");
    fs::create_dir(&own).unwrap();
    chown(&own, Some(VICTIM), None).unwrap();
    std::os::unix::fs::symlink(&own, &squatted).unwrap();
    let linked = errors(victim(&["govern", "--root", tree]).output().unwrap());
    assert!(linked.contains("it is a symbolic link"), "{linked}");
    // A daemon of another user is not believed either, wherever it listens.
    let path = own.join("fake.sock");
    let script = "import socket,os,sys\nl=socket.socket(socket.AF_UNIX)\nl.bind(sys.argv[1])\n\
                  os.chmod(sys.argv[1],0o777)\nl.listen(5)\nprint(flush=True)\nl.accept()\n";
    open(&own, 0o777);
    let python = Command::new("python3")
        .args(["-c", script])
        .arg(&path)
        .uid(SQUATTER)
        .stdout(Stdio::piped())
        .spawn();
    let mut fake = match python {
        Ok(fake) => fake,
        Err(error) => return wattline_needs::tool(format_args!("python3: {error}")),
    };
    fake.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
    let path = path.to_str().unwrap();
    let message = errors(victim(&["stats", "--socket", path]).output().unwrap());
    assert!(message.contains("belongs to user 1234"), "{message}");
    fake.kill().unwrap();
    fake.wait().unwrap();
}

#[test]
fn answers_are_shown_without_control_characters() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s.sock");
    let listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
    let hostile = "\u{1b}]0;owned\u{7} \u{9b}31m \u{7f} \u{202e}data\r";
    let serve = move || {
        for stream in listener.incoming() {
            let stream = stream.unwrap();
            let mut line = String::new();
            BufReader::new(&stream).read_line(&mut line).unwrap();
            let answer = if line.contains("stats") {
                let port =
                    serde_json::json!({ "name": hostile, "mode": hostile, "reason": hostile });
                serde_json::json!({"ok": {"ports": [port], "dropped": {hostile: 1}}})
            } else {
                serde_json::json!({ "error": hostile })
            };
            let _ = (&stream).write_all(format!("{answer}\n").as_bytes());
        }
    };
    std::thread::spawn(serve);
    for arguments in [&["stats"][..], &["stats", "--json"], &["stop"], &["stop", "--json"]] {
        let output = Command::new(wattline_needs::program())
            .args(arguments)
            .arg("--socket")
            .arg(&path)
            .output();
        let output = output.unwrap();
        for text in [output.stdout, output.stderr] {
            let text = String::from_utf8(text).unwrap();
            let controls = |it: char| it.is_control() && it != '\n' || it == '\u{202e}';
            assert!(!text.contains(controls), "{arguments:?}: {text:?}");
            if arguments.contains(&"--json") && !text.is_empty() && text.starts_with('{') {
                assert!(serde_json::from_str::<serde_json::Value>(&text).is_ok(), "{text}");
            }
        }
    }
}
