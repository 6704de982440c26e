//! Check that busy polling has an effect. The kernel accepts the socket option of preferred busy
//! polling anywhere, but keeps interrupts off only if a queue defers them too
//! (Documentation/networking/napi.rst, "IRQ mitigation").

use wattline_linux::napi::{self, Napi};

/// Returns why busy polling of an interface's first queues has no effect, if so; `None` if the
/// kernel does not report it.
pub(super) fn obstacle_to_busy_polling(interface: &str, queues: u32) -> Option<String> {
    let needed = [
        (Napi::DeferHardIrqs, "napi_defer_hard_irqs", 2),
        (Napi::GroFlushTimeout, "gro_flush_timeout", 200_000),
    ];
    let lacks = |setting| {
        (0..queues).any(|queue| napi::get(interface, queue, setting).is_ok_and(|value| value == 0))
    };
    let commands: Vec<String> = needed
        .into_iter()
        .filter(|(setting, ..)| lacks(*setting))
        .map(|(_, file, value)| format!("echo {value} > /sys/class/net/{interface}/{file}"))
        .collect();
    (!commands.is_empty()).then(|| {
        format!(
            "busy polling has no effect, since {interface} defers no interrupts: `{}`",
            commands.join("; ")
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use wattline_linux::namespace::Namespace;

    #[test]
    fn busy_polling_without_deferred_interrupts_is_reported() {
        let lines = ["link add v0 type veth peer name v1", "link set v0 up"];
        let made = Namespace::for_test(&lines).and_then(|namespace| {
            namespace.run("ethtool", &["-K", "v0", "gro", "on"])?;
            Ok(namespace)
        });
        let Ok(namespace) = made.map_err(wattline_needs::rights) else { return };
        let asked = || namespace.enter(|| obstacle_to_busy_polling("v0", 1)).unwrap();
        let deferred = namespace.enter(|| napi::get("v0", 0, Napi::DeferHardIrqs)).unwrap();
        if let Err(error) = deferred {
            return wattline_needs::machine(error);
        }
        let why = asked().expect("nothing is deferred");
        for file in ["napi_defer_hard_irqs", "gro_flush_timeout"] {
            assert!(why.contains(&format!("/sys/class/net/v0/{file}")), "{why}");
        }
        let set = |file: &str, value: &str| {
            let text = format!("echo {value} > /sys/class/net/v0/{file}");
            namespace.run("sh", &["-c", &text]).unwrap();
        };
        set("napi_defer_hard_irqs", "2");
        let why = asked().expect("one of two");
        assert!(!why.contains("napi_defer") && why.contains("gro_flush_timeout"), "{why}");
        set("gro_flush_timeout", "200000");
        assert_eq!(asked(), None, "all that the kernel's documentation asks for");
    }
}
