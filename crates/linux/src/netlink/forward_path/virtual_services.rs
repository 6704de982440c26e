//! Virtual services of IPVS, which translates the answers of their servers as it forwards them.

/// Counts the services of this network namespace.
pub(super) fn count() -> usize {
    count_in(&std::fs::read_to_string("/proc/thread-self/net/ip_vs").unwrap_or_default())
}

fn count_in(text: &str) -> usize {
    let is_service =
        |line: &&str| ["TCP", "UDP", "SCTP", "FWM"].iter().any(|it| line.starts_with(it));
    text.lines().filter(is_service).count()
}

#[cfg(test)]
mod tests {
    #[test]
    fn services_are_counted_without_their_servers() {
        let text = "IP Virtual Server version 1.2.1 (size=4096)\n\
                    Prot LocalAddress:Port Scheduler Flags\n  \
                    -> RemoteAddress:Port Forward Weight ActiveConn InActConn\n\
                    TCP  C0000201:0050 rr\n  -> 0A000001:0050      Masq    1      0          0\n\
                    FWM  00000007 wlc\n";
        assert_eq!(super::count_in(text), 2);
        assert_eq!(super::count_in(""), 0);
    }
}
