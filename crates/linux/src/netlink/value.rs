//! Values of netlink attributes that are a number or a text.

/// A number in the machine's order.
pub(super) fn number(content: &[u8]) -> Option<u32> {
    content.first_chunk().copied().map(u32::from_ne_bytes)
}

/// A number in the order of the wire.
pub(super) fn number_of_wire(content: &[u8]) -> Option<u32> {
    content.first_chunk().copied().map(u32::from_be_bytes)
}

/// A text up to its zero.
pub(super) fn text(content: &[u8]) -> String {
    let bytes = content.split(|byte| *byte == 0).next().unwrap_or_default();
    String::from_utf8_lossy(bytes).into_owned()
}
