//! Attributes of netlink messages, byte by byte (include/uapi/linux/netlink.h: struct nlattr).

/// Number and content of the attributes in `bytes`; what is malformed ends them.
pub(super) fn attributes(mut bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let length = usize::from(u16::from_ne_bytes(*bytes.first_chunk()?));
        // The two highest bits are flags.
        let kind = u16::from_ne_bytes(*bytes.get(2..)?.first_chunk()?) & 0x3fff;
        let content = bytes.get(4..length)?;
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some((kind, content))
    })
}

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
