//! The group whose members may look at a daemon.
//!
//! A machine has it where somebody made it (`groupadd --system wattline`); without it nobody but the
//! owner and root gets in.

use std::path::Path;

/// Its name.
pub const GROUP: &str = "wattline";

/// Opens a socket to the group, and with it the directory that it is in where that is the usual one.
/// The group comes before the mode, so that no other group gets in meanwhile. What fails leaves it
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

/// The number of a group in a text of the form of /etc/group (group(5)).
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
