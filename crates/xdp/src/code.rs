//! The XDP program: transit unicast to the socket of its queue, all else to the kernel.
//!
//! ```text
//! Ethernet   to us?        no  -> kernel (ARP requests, ND, routing protocols, bridging)
//! VLAN       routed here?  no  -> kernel
//! IPv4/IPv6  transit?      no  -> kernel (local, options, TTL, multicast, link-local)
//!                          yes -> forwarded by the program itself, where it may ([`forward`])
//!                                 else socket of the receive queue; kernel if there is none
//! local      ESP, and a tunnel ends here? -> to the socket
//! ```
//!
//! Whatever is in doubt goes to the kernel, which knows more. Header checks of transit
//! packets (checksum, lengths) are the data plane's, or [`forward`]'s.
//!
//! While the interface is guarded (policies say what may leave, and the kernel does not know them),
//! nothing passes that the kernel would forward: options, link-local and reserved IPv4 addresses
//! and what has a tag of number 0 go to the socket too, where a worker asks the policies; what no
//! worker can see (no socket, too long for one, a tag of number 0 before another) is dropped, and
//! counted as that.

use super::forward::{self, ForwardMaps};
use super::verdict::Verdict;
use crate::bpf::Condition::{AnyBit, Equal, Greater, GreaterOrEqual, LessOrEqual, NotEqual};
use crate::bpf::Register::{R0, R1, R2, R3, R4, R5, R6, R7, R8, R9, R10};
use crate::bpf::Size::{Byte, Double, Half, Word};
use crate::bpf::{Assembler, Label, Map, helper};
use rustix::fd::AsFd;

/// `XDP_DROP`
const XDP_DROP: i32 = 1;
/// `XDP_PASS`
const XDP_PASS: i32 = 2;
/// `XDP_REDIRECT`
pub(super) const XDP_REDIRECT: i32 = 4;

// Fields of `struct xdp_md`.
pub(super) const MD_DATA: i16 = 0;
pub(super) const MD_DATA_END: i16 = 4;
const MD_RX_QUEUE_INDEX: i16 = 16;

// Registers that keep their meaning throughout.
pub(super) const CONTEXT: crate::bpf::Register = R6;
/// Start of the header that is looked at: first Ethernet, then IP.
pub(super) const HEADER: crate::bpf::Register = R7;
pub(super) const END: crate::bpf::Register = R8;
/// The verdict, should a check fail.
const VERDICT: crate::bpf::Register = R9;

// A counter's index and a looked-up key lie on the stack; below them is [`forward`]'s part of it.
pub(super) const KEY: i16 = -16;
const COUNTER_KEY: i16 = -24;
/// The length of the longest IP packet that goes to a socket.
const LONGEST: i16 = -32;
/// 1 while the interface is guarded, else 0.
const GUARDED: i16 = -30;
/// 1 where the frame has a VLAN tag.
const TAGGED: i16 = -28;
/// What this program cannot forward whatever its way, nor take out of a tunnel: 0, or one of
/// [`HAS_OPTIONS`] and [`IS_TOO_LONG`]. Only while the interface is guarded; else such packets pass.
const ODD: i16 = -26;
const HAS_OPTIONS: i32 = 1;
const IS_TOO_LONG: i32 = 2;

/// The value of a local address.
pub(super) const LOCAL: u8 = 1;
/// The same where tunnels end.
pub(super) const ENDS_TUNNELS: u8 = 2;

/// EtherTypes of tags.
const VLAN: i32 = 0x8100;
const SERVICE_VLAN: i32 = 0x88a8;

const PROTOCOL_UDP: i32 = 17;
const PROTOCOL_ESP: i32 = 50;
/// Of ESP in UDP, and of IKE behind NAT (RFC 3948).
const PORT_ESP: i32 = 4500;

/// The maps that the program uses.
pub(super) struct Maps {
    /// Queue number to AF_XDP socket.
    pub(super) sockets: Map,
    /// One value: the interface's MAC address (6 bytes), the length of the longest IP packet
    /// that sockets take (2), and 1 while it is guarded, else 0 (4).
    pub(super) station: Map,
    /// VLAN number to 1 where it is routed here.
    pub(super) vlans: Map,
    /// IPv4 addresses of this machine, in network order, to [`LOCAL`] or [`ENDS_TUNNELS`].
    pub(super) local_v4: Map,
    /// IPv6 addresses of this machine, likewise.
    pub(super) local_v6: Map,
    /// Frames by [`Verdict`].
    pub(super) counters: Map,
    /// What is needed to forward without a socket; without it the program never does.
    pub(super) forward: Option<ForwardMaps>,
}

/// Writes the program for the given maps.
pub(super) fn assemble(maps: &Maps) -> Vec<u64> {
    let mut a = Assembler::new();
    let labels = Labels {
        pass: a.label(),
        transit_v4: a.label(),
        transit_v6: a.label(),
        redirect: a.label(),
        ipv4: a.label(),
        ipv6: a.label(),
        drop: a.label(),
        count_and_return: a.label(),
    };
    ethernet(&mut a, maps, &labels);
    ipv4(&mut a, maps, &labels);
    ipv6(&mut a, maps, &labels);
    transit(&mut a, maps, &labels);
    verdicts(&mut a, maps, &labels);
    a.finish()
}

pub(super) struct Labels {
    /// Gives the frame to the kernel, counting `VERDICT`.
    pass: Label,
    /// A packet that a router forwards, its header at `HEADER` and complete.
    transit_v4: Label,
    transit_v6: Label,
    /// Gives the frame to the socket of its queue.
    pub(super) redirect: Label,
    ipv4: Label,
    ipv6: Label,
    /// Discards the frame, counting `VERDICT`.
    drop: Label,
    /// Counts `VERDICT` and returns what is on the stack at `KEY`.
    pub(super) count_and_return: Label,
}

/// What is to be counted if the checks that follow fail.
pub(super) fn expect(a: &mut Assembler, verdict: Verdict) {
    a.set(VERDICT, verdict as i32);
}

/// Goes to `pass` unless `bytes` bytes from `HEADER` on are there.
fn require(a: &mut Assembler, bytes: i32, labels: &Labels) {
    expect(a, Verdict::Short);
    a.copy(R2, HEADER);
    a.add(R2, bytes);
    a.jump_if_register(R2, Greater, END, labels.pass);
}

/// Goes there unless the interface is guarded. Uses `R4`.
fn unless_guarded(a: &mut Assembler, there: Label) {
    a.load(Half, R4, R10, GUARDED);
    a.jump_if(R4, Equal, 0, there);
}

fn ethernet(a: &mut Assembler, maps: &Maps, labels: &Labels) {
    a.copy(CONTEXT, R1);
    a.load(Word, HEADER, CONTEXT, MD_DATA);
    a.load(Word, END, CONTEXT, MD_DATA_END);
    require(a, 14, labels);

    expect(a, Verdict::LinkMulticast);
    a.load(Byte, R2, HEADER, 0);
    a.jump_if(R2, AnyBit, 1, labels.pass);

    expect(a, Verdict::OtherStation);
    a.map_value(R1, maps.station.as_fd());
    for (size, offset) in [(Word, 0), (Half, 4)] {
        a.load(size, R2, HEADER, offset);
        a.load(size, R3, R1, offset);
        a.jump_if_register(R2, NotEqual, R3, labels.pass);
    }
    a.load(Half, R2, R1, 6);
    a.store(Half, R10, LONGEST, R2);
    a.load(Word, R2, R1, 8);
    a.store(Half, R10, GUARDED, R2);

    a.load(Half, R5, HEADER, 12);
    a.from_big_endian(R5, 16);
    a.store_value(Half, R10, TAGGED, 0);
    a.store_value(Half, R10, ODD, 0);
    let untagged = a.label();
    let tagged = a.label();
    let routed = a.label();
    let behind_tag = a.label();
    let service_tag = a.label();
    // 802.1Q; a second tag (802.1ad outside) is the kernel's.
    a.jump_if(R5, Equal, VLAN, tagged);
    a.jump_if(R5, Equal, SERVICE_VLAN, service_tag);
    a.add(HEADER, 14);
    a.jump(untagged);

    a.place(tagged);
    require(a, 18, labels);
    vlan_number(a);
    a.jump_if(R2, NotEqual, 0, routed);
    expect(a, Verdict::Vlan);
    unless_guarded(a, labels.pass);
    a.jump(behind_tag);

    a.place(service_tag);
    require(a, 18, labels);
    vlan_number(a);
    expect(a, Verdict::NotIp);
    a.jump_if(R2, NotEqual, 0, labels.pass);
    unless_guarded(a, labels.pass);
    a.jump(behind_tag);

    a.place(routed);
    expect(a, Verdict::Vlan);
    a.store(Word, R10, KEY, R2);
    lookup(a, &maps.vlans);
    a.jump_if(R0, Equal, 0, labels.pass);
    a.load(Word, R2, R0, 0);
    a.jump_if(R2, Equal, 0, labels.pass);
    a.load(Half, R5, HEADER, 16);
    a.from_big_endian(R5, 16);
    a.add(HEADER, 18);
    a.store_value(Half, R10, TAGGED, 1);
    a.jump(untagged);

    // The kernel takes tags of number 0 off, one after the other, and forwards what is behind.
    a.place(behind_tag);
    a.load(Half, R5, HEADER, 16);
    a.from_big_endian(R5, 16);
    a.add(HEADER, 18);
    a.store_value(Half, R10, TAGGED, 1);
    expect(a, Verdict::Tags);
    a.jump_if(R5, Equal, VLAN, labels.drop);
    a.jump_if(R5, Equal, SERVICE_VLAN, labels.drop);

    a.place(untagged);
    a.jump_if(R5, Equal, 0x0800, labels.ipv4);
    a.jump_if(R5, Equal, 0x86dd, labels.ipv6);
    expect(a, Verdict::NotIp);
    a.jump(labels.pass);
}

/// `R2 =` the VLAN of the tag behind the addresses at `HEADER`.
fn vlan_number(a: &mut Assembler) {
    a.load(Half, R2, HEADER, 14);
    a.from_big_endian(R2, 16);
    a.and(R2, 0xfff);
}

/// RFC 791; which addresses are not forwarded: RFC 1812, section 5.3.7.
fn ipv4(a: &mut Assembler, maps: &Maps, labels: &Labels) {
    const TOTAL_LENGTH: i16 = 2;
    const FRAGMENT: i16 = 6;
    const TIME_TO_LIVE: i16 = 8;
    const PROTOCOL: i16 = 9;
    const SOURCE: i16 = 12;
    const DESTINATION: i16 = 16;
    a.place(labels.ipv4);
    require(a, 20, labels);

    expect(a, Verdict::Malformed);
    a.load(Byte, R2, HEADER, 0);
    a.jump_if(R2, LessOrEqual, 0x44, labels.pass);
    a.jump_if(R2, GreaterOrEqual, 0x50, labels.pass);
    expect(a, Verdict::Options);
    let plain = a.label();
    a.jump_if(R2, Equal, 0x45, plain);
    unless_guarded(a, labels.pass);
    a.store_value(Half, R10, ODD, HAS_OPTIONS);
    a.place(plain);

    expect(a, Verdict::TimeToLive);
    a.load(Byte, R2, HEADER, TIME_TO_LIVE);
    a.jump_if(R2, LessOrEqual, 1, labels.pass);

    // Groups are never forwarded. Reserved addresses (240.0.0.0/4) the kernel forwards; workers
    // drop them.
    a.load(Byte, R2, HEADER, DESTINATION);
    expect(a, Verdict::Multicast);
    let to_host = a.label();
    a.jump_if(R2, LessOrEqual, 223, to_host);
    unless_guarded(a, labels.pass);
    a.jump_if(R2, LessOrEqual, 239, labels.pass);
    a.load(Word, R3, HEADER, DESTINATION);
    a.add(R3, 1);
    // 255.255.255.255, which is this link.
    a.shift_right(R3, 32);
    a.jump_if(R3, NotEqual, 0, labels.pass);
    a.place(to_host);
    a.load(Byte, R3, HEADER, SOURCE);
    expect(a, Verdict::Martian);
    let from_host = a.label();
    a.jump_if(R3, LessOrEqual, 223, from_host);
    unless_guarded(a, labels.pass);
    a.place(from_host);
    for first_octet in [R2, R3] {
        a.jump_if(first_octet, Equal, 0, labels.pass);
        a.jump_if(first_octet, Equal, 127, labels.pass);
    }
    // The kernel forwards these where a route says so.
    expect(a, Verdict::LinkLocal);
    let leaves_link = a.label();
    a.load(Half, R4, R10, GUARDED);
    a.jump_if(R4, NotEqual, 0, leaves_link);
    for address in [DESTINATION, SOURCE] {
        a.load(Half, R2, HEADER, address);
        a.from_big_endian(R2, 16);
        a.jump_if(R2, Equal, 0xa9fe, labels.pass);
    }
    a.place(leaves_link);
    a.load(Half, R2, HEADER, TOTAL_LENGTH);
    a.from_big_endian(R2, 16);
    fits(a, labels);

    expect(a, Verdict::Local);
    a.load(Word, R2, HEADER, DESTINATION);
    a.store(Word, R10, KEY, R2);
    lookup(a, &maps.local_v4);
    a.jump_if(R0, Equal, 0, labels.transit_v4);
    a.load(Byte, R2, R0, 0);
    a.jump_if(R2, NotEqual, ENDS_TUNNELS.into(), labels.pass);
    unless_plain(a, labels.pass);
    let whole = a.label();
    a.load(Half, R2, HEADER, FRAGMENT);
    a.from_big_endian(R2, 16);
    a.and(R2, 0x3fff);
    a.jump_if(R2, Equal, 0, whole);
    // The kernel puts fragments together; no ESP packet should come in any.
    a.jump(labels.pass);
    a.place(whole);
    a.load(Byte, R2, HEADER, PROTOCOL);
    a.add(HEADER, 20);
    esp(a, labels);
}

/// To the kernel unless a packet of `R2` bytes fits a socket's chunk: an interface's MTU may
/// have grown since the sockets were opened. While the interface is guarded it is marked, and goes
/// on: should it be for this machine, the kernel gets it all the same.
fn fits(a: &mut Assembler, labels: &Labels) {
    expect(a, Verdict::TooLong);
    let short = a.label();
    a.load(Half, R3, R10, LONGEST);
    a.jump_if_register(R2, LessOrEqual, R3, short);
    unless_guarded(a, labels.pass);
    a.store_value(Half, R10, ODD, IS_TOO_LONG);
    a.place(short);
}

/// Goes there with a packet that is marked as odd. Uses `R3`.
fn unless_plain(a: &mut Assembler, there: Label) {
    a.load(Half, R3, R10, ODD);
    a.jump_if(R3, NotEqual, 0, there);
}

/// To the socket where what begins at `HEADER`, a payload whose protocol `R2` says, is ESP or
/// ESP in UDP; else to the kernel.
fn esp(a: &mut Assembler, labels: &Labels) {
    const DESTINATION_PORT: i16 = 2;
    const MARKER: i16 = 8;
    a.jump_if(R2, Equal, PROTOCOL_ESP, labels.redirect);
    a.jump_if(R2, NotEqual, PROTOCOL_UDP, labels.pass);
    // Eight bytes of UDP, and where ESP has its SPI, IKE has four bytes of zero. A keepalive
    // is shorter than that.
    a.copy(R2, HEADER);
    a.add(R2, 12);
    a.jump_if_register(R2, Greater, END, labels.pass);
    a.load(Half, R2, HEADER, DESTINATION_PORT);
    a.from_big_endian(R2, 16);
    a.jump_if(R2, NotEqual, PORT_ESP, labels.pass);
    a.load(Word, R2, HEADER, MARKER);
    a.jump_if(R2, NotEqual, 0, labels.redirect);
    a.jump(labels.pass);
}

/// RFC 8200; which addresses are not forwarded: RFC 4291, sections 2.5 and 2.7.
fn ipv6(a: &mut Assembler, maps: &Maps, labels: &Labels) {
    const PAYLOAD_LENGTH: i16 = 4;
    const NEXT_HEADER: i16 = 6;
    const HOP_LIMIT: i16 = 7;
    const SOURCE: i16 = 8;
    const DESTINATION: i16 = 24;
    a.place(labels.ipv6);
    require(a, 40, labels);

    expect(a, Verdict::Malformed);
    a.load(Byte, R2, HEADER, 0);
    a.and(R2, 0xf0);
    a.jump_if(R2, NotEqual, 0x60, labels.pass);

    expect(a, Verdict::Options);
    let plain = a.label();
    a.load(Byte, R2, HEADER, NEXT_HEADER);
    a.jump_if(R2, NotEqual, 0, plain);
    unless_guarded(a, labels.pass);
    a.store_value(Half, R10, ODD, HAS_OPTIONS);
    a.place(plain);

    expect(a, Verdict::TimeToLive);
    a.load(Byte, R2, HEADER, HOP_LIMIT);
    a.jump_if(R2, LessOrEqual, 1, labels.pass);

    expect(a, Verdict::Multicast);
    a.load(Byte, R2, HEADER, DESTINATION);
    a.jump_if(R2, Equal, 0xff, labels.pass);
    expect(a, Verdict::Martian);
    a.load(Byte, R2, HEADER, SOURCE);
    a.jump_if(R2, Equal, 0xff, labels.pass);
    expect(a, Verdict::LinkLocal);
    for address in [DESTINATION, SOURCE] {
        a.load(Half, R2, HEADER, address);
        a.from_big_endian(R2, 16);
        a.and(R2, 0xffc0);
        a.jump_if(R2, Equal, 0xfe80, labels.pass);
    }
    expect(a, Verdict::Martian);
    for address in [DESTINATION, SOURCE] {
        // ::/127, which is "unspecified" and loopback. Read in words, as a header lies on
        // a four-byte boundary at best.
        let other = a.label();
        a.load(Word, R2, HEADER, address);
        for offset in [4, 8] {
            a.load(Word, R3, HEADER, address + offset);
            a.or_register(R2, R3);
        }
        a.jump_if(R2, NotEqual, 0, other);
        a.load(Word, R2, HEADER, address + 12);
        a.from_big_endian(R2, 32);
        a.jump_if(R2, LessOrEqual, 1, labels.pass);
        a.place(other);
    }
    a.load(Half, R2, HEADER, PAYLOAD_LENGTH);
    a.from_big_endian(R2, 16);
    a.add(R2, 40);
    fits(a, labels);

    expect(a, Verdict::Local);
    for offset in [0, 4, 8, 12] {
        a.load(Word, R2, HEADER, DESTINATION + offset);
        a.store(Word, R10, KEY + offset, R2);
    }
    lookup(a, &maps.local_v6);
    a.jump_if(R0, Equal, 0, labels.transit_v6);
    a.load(Byte, R2, R0, 0);
    a.jump_if(R2, NotEqual, ENDS_TUNNELS.into(), labels.pass);
    unless_plain(a, labels.pass);
    a.load(Byte, R2, HEADER, NEXT_HEADER);
    a.add(HEADER, 40);
    esp(a, labels);
}

/// Forwards what may be forwarded here; the rest goes on to the socket.
fn transit(a: &mut Assembler, maps: &Maps, labels: &Labels) {
    let odd = a.label();
    for (place, ipv4) in [(labels.transit_v4, true), (labels.transit_v6, false)] {
        a.place(place);
        unless_plain(a, odd);
        let Some(ways) = &maps.forward else {
            a.jump(labels.redirect);
            continue;
        };
        // The kernel's lookup wants to know the VLAN's own interface.
        a.load(Half, R2, R10, TAGGED);
        a.jump_if(R2, NotEqual, 0, labels.redirect);
        if ipv4 {
            forward::ipv4(a, ways, &maps.local_v4, labels);
        } else {
            forward::ipv6(a, ways, labels);
        }
    }
    // `R3` says how.
    a.place(odd);
    expect(a, Verdict::TooLongForWorkers);
    a.jump_if(R3, Equal, IS_TOO_LONG, labels.drop);
    a.jump(labels.redirect);
}

/// `R0 =` address of the value whose key is on the stack at `KEY`, or 0.
pub(super) fn lookup(a: &mut Assembler, map: &Map) {
    lookup_at(a, map, KEY);
}

/// The same with the key elsewhere on the stack.
pub(super) fn lookup_at(a: &mut Assembler, map: &Map, key: i16) {
    a.map(R1, map.as_fd());
    a.copy(R2, R10);
    a.add(R2, i32::from(key));
    a.call(helper::MAP_LOOKUP);
}

fn verdicts(a: &mut Assembler, maps: &Maps, labels: &Labels) {
    a.place(labels.redirect);
    a.map(R1, maps.sockets.as_fd());
    a.load(Word, R2, CONTEXT, MD_RX_QUEUE_INDEX);
    // What it returns where there is no socket.
    a.set(R3, XDP_PASS);
    let open = a.label();
    unless_guarded(a, open);
    a.set(R3, XDP_DROP);
    a.place(open);
    a.call(helper::REDIRECT_MAP);
    a.store(Double, R10, KEY, R0);
    expect(a, Verdict::Redirected);
    a.jump_if(R0, Equal, XDP_REDIRECT, labels.count_and_return);
    expect(a, Verdict::NoSocket);
    unless_guarded(a, labels.count_and_return);
    expect(a, Verdict::NoWorker);
    a.jump(labels.count_and_return);

    a.place(labels.drop);
    a.store_value(Double, R10, KEY, XDP_DROP);
    a.jump(labels.count_and_return);

    a.place(labels.pass);
    a.store_value(Double, R10, KEY, XDP_PASS);

    a.place(labels.count_and_return);
    a.store(Word, R10, COUNTER_KEY, VERDICT);
    a.map(R1, maps.counters.as_fd());
    a.copy(R2, R10);
    a.add(R2, i32::from(COUNTER_KEY));
    a.call(helper::MAP_LOOKUP);
    let uncounted = a.label();
    a.jump_if(R0, Equal, 0, uncounted);
    // Each processor has its own value and is not interrupted by itself here.
    a.load(Double, R4, R0, 0);
    a.add(R4, 1);
    a.store(Double, R0, 0, R4);
    a.place(uncounted);
    a.load(Double, R0, R10, KEY);
    a.exit();
}
