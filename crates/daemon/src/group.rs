//! The group whose members may query a daemon.
//!
//! An administrator creates it (`groupadd --system wattline`); without it, only the owner and root
//! have access.

use std::path::Path;

/// Name of the group.
pub const GROUP: &str = "wattline";

/// Gives the group access to a socket, and to its directory if that is the usual one. The group is
/// set before the mode, so that no other group gets access meanwhile. On failure the socket stays
/// closed.
pub(super) fn admit(socket: &Path, and_directory: bool) {
    let groups = std::fs::read_to_string("/etc/group").unwrap_or_default();
    let Some(group) = number(&groups, GROUP) else { return };
    let open = |path: &Path, mode: u32| -> std::io::Result<()> {
        use std::os::unix::fs::PermissionsExt;
        std::os::unix::fs::chown(path, None, Some(group))?;
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode))
    };
    let directory = socket.parent().filter(|_| and_directory);
    let done = directory
        .map_or(Ok(()), |directory| open(directory, 0o750))
        .and_then(|()| open(socket, 0o660));
    if let Err(error) = done {
        tracing::warn!(
            "members of the group {GROUP} cannot use the control socket {}: {error}; start this \
             program with CAP_CHOWN or as a member of the group",
            socket.display()
        );
    }
}

/// Returns the number of a group from a text in the form of /etc/group (group(5)).
fn number(groups: &str, name: &str) -> Option<u32> {
    let fields = groups.lines().map(|line| line.split(':'));
    let mut numbers = fields.filter_map(|mut fields| {
        (fields.next() == Some(name)).then(|| fields.nth(1)?.parse().ok()).flatten()
    });
    numbers.next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_have_numbers() {
        let text = "root:x:0:\nwattline-not:x:7:\nbroken\nwattline:x:998:ann,bob\n";
        assert_eq!(number(text, "wattline"), Some(998));
        assert_eq!(number(text, "root"), Some(0));
        assert_eq!(number(text, "wheel"), None);
        assert_eq!(number("wattline:x:many:\n", "wattline"), None);
    }
}
