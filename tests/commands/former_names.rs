//! Former names of policies: they decide as ever, and one note says what they are called now.

use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output};

const NOTE: &str = "policy \"powersave\" is called \"queue-length\" now; Linux's governor of that \
                    name is \"powersave-governor\"";

fn wattline(folder: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(wattline_needs::program());
    command.args(args).current_dir(folder).output().expect("the program starts")
}

/// Runs a command with a policy's former and present name, and returns what both print but for
/// times of this machine. The first has the note, once.
fn both(folder: &Path, args: &[&str]) -> [Value; 2] {
    ["powersave", "queue-length"].map(|name| {
        let named: Vec<String> = args.iter().map(|arg| arg.replace("NAME", name)).collect();
        let output = wattline(folder, &named.iter().map(String::as_str).collect::<Vec<_>>());
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{named:?}: {told}");
        let notes = told.lines().filter(|line| line.starts_with("note: ")).collect::<Vec<_>>();
        match name {
            "powersave" => assert_eq!(notes.len(), 1, "{told}"),
            _ => assert!(notes.is_empty(), "{told}"),
        }
        assert!(notes.iter().all(|note| note.ends_with(NOTE)), "{told}");
        let printed = String::from_utf8(output.stdout).unwrap();
        assert!(!printed.replace("policy \\\"powersave\\\"", "").contains("powersave\""));
        let mut printed: Value = serde_json::from_str(&printed).unwrap();
        without_times(&mut printed);
        printed
    })
}

fn without_times(document: &mut Value) {
    match document {
        Value::Object(fields) => {
            for name in ["wall_seconds", "simulated_packets_per_second"] {
                fields.remove(name);
            }
            fields.values_mut().for_each(without_times);
        }
        Value::Array(values) => values.iter_mut().for_each(without_times),
        _ => {}
    }
}

#[test]
fn former_name_of_a_policy_decides_the_same_with_one_note() {
    let folder = tempfile::tempdir().unwrap();
    let traffic = ["--traffic", "poisson:5Mpps,size=64"];
    let short = ["--duration", "10ms", "--json"];
    for command in [
        &["sim", "--policy", "NAME:c_down=20", "--explain"][..],
        &["sweep", "--policy", "NAME,napi", "--policy", "NAME:preset=efficient"],
    ] {
        let [former, present] = both(folder.path(), &[command, &traffic, &short].concat());
        assert_eq!(former, present, "{command:?}");
    }
    let [former, present] = both(folder.path(), &["policies", "NAME", "--json"]);
    assert_eq!(former, present);
}

#[test]
fn former_name_in_a_league_file_plays_under_the_present_one() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["powersave", "queue-length"] {
        let text = format!(
            "servers = [\"westmere-2010\"]\npolicies = [\"{name}\", \"{name}:q_h=16\"]\n\
             traffics = [\"poisson:1Mpps,size=64\"]\nbudgets = [\"100us\"]\nseeds = [1]\n\
             duration = \"5ms\"\nwarmup = \"1ms\"\nenvelope = false\n[tuning]\nseeds = [2]\n\
             grids = [\"{name}:batch=8|16\"]\n"
        );
        std::fs::write(folder.path().join(format!("{name}.toml")), text).unwrap();
    }
    let [former, present] = both(folder.path(), &["league", "NAME.toml", "--json"]);
    assert_eq!(former, present);
    assert!(present.to_string().contains("\"queue-length, tuned\""), "{present}");
}

#[test]
fn former_name_in_a_configuration_is_noted() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["powersave", "queue-length"] {
        let text = format!(
            "[[port]]\nname = \"a\"\ncapture = {{ read = \"a.pcap\" }}\nmac = \"02:00:00:00:00:01\"\n\
             [power]\nplatform = \"scale\"\npolicy = \"{name}:c_up=2\"\n"
        );
        std::fs::write(folder.path().join(format!("{name}.toml")), text).unwrap();
    }
    let [former, present] = both(folder.path(), &["config", "NAME.toml", "--json"]);
    assert_eq!(former["warnings"], serde_json::json!([format!("[power] {NOTE}")]));
    assert_eq!(present["warnings"], serde_json::json!([]));
    // A governor of the kernel's packets cannot have it, and it may be Linux's that was meant.
    std::fs::write(folder.path().join("g.toml"), "[govern]\npolicy = \"powersave\"\n").unwrap();
    let output = wattline(folder.path(), &["config", "--govern", "g.toml"]);
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(78), "{told}");
    assert!(told.starts_with(&format!("note: [govern] {NOTE}\n")), "{told}");
}
