//! Values of netlink attributes that are numbers or texts.

/// Returns a number in the machine's byte order.
pub(super) fn number(content: &[u8]) -> Option<u32> {
    content.first_chunk().copied().map(u32::from_ne_bytes)
}

/// Returns a number in network byte order.
pub(super) fn number_of_wire(content: &[u8]) -> Option<u32> {
    content.first_chunk().copied().map(u32::from_be_bytes)
}

/// Returns a text up to its zero.
pub(super) fn text(content: &[u8]) -> String {
    let bytes = content.split(|byte| *byte == 0).next().unwrap_or_default();
    String::from_utf8_lossy(bytes).into_owned()
}
