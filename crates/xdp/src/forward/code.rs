//! The part of the XDP program that forwards.
//!
//! Header checks as RFC 1812, section 5.2.2, and RFC 8200 ask for; route, neighbour and MTU are
//! the kernel's (`bpf_fib_lookup`). Everything that is not plain (no neighbour yet, too long for
//! the way out, blackhole, own address as source, truncated, wrong checksum) is left to the data
//! plane behind the socket, untouched: it answers, holds, fragments, drops and counts.

use super::super::code::{
    CONTEXT, END, HEADER, KEY, Labels, MD_DATA, MD_DATA_END, XDP_REDIRECT, expect, lookup,
    lookup_at,
};
use super::super::verdict::Verdict;
use super::ForwardMaps;
use crate::bpf::Condition::{Equal, Greater, GreaterOrEqual, LessOrEqual, NotEqual};
use crate::bpf::Register::{R0, R1, R2, R3, R4, R5, R10};
use crate::bpf::Size::{Byte, Double, Half, Word};
use crate::bpf::{Assembler, Map, helper};
use rustix::fd::AsFd;

/// `XDP_DROP`
const XDP_DROP: i32 = 1;
/// Field of `struct xdp_md`.
const MD_INGRESS_IFINDEX: i16 = 12;

/// Bytes behind the packet: padding of a short frame.
const PADDING: i16 = -40;
/// The place of the way out in the counters.
const SLOT: i16 = -44;
/// Where `struct bpf_fib_lookup` is on the stack, and its size.
const PARAMETERS: i16 = -112;
const PARAMETERS_SIZE: i16 = 64;
// Its fields.
const FAMILY: i16 = PARAMETERS;
const PROTOCOL: i16 = PARAMETERS + 1;
const SOURCE_PORT: i16 = PARAMETERS + 2;
const DESTINATION_PORT: i16 = PARAMETERS + 4;
const TOTAL_LENGTH: i16 = PARAMETERS + 6;
/// First that of the way in, then that of the way out.
const IFINDEX: i16 = PARAMETERS + 8;
/// Type of service, or flow label.
const SERVICE: i16 = PARAMETERS + 12;
const SOURCE: i16 = PARAMETERS + 16;
const DESTINATION: i16 = PARAMETERS + 32;
const SOURCE_MAC: i16 = PARAMETERS + 52;
const DESTINATION_MAC: i16 = PARAMETERS + 58;

const AF_INET: i32 = 2;
const AF_INET6: i32 = 10;
const PROTOCOL_TCP: i32 = 6;
const PROTOCOL_UDP: i32 = 17;

/// Forwards the IPv4 packet at `HEADER`, without options and with a TTL of at least 2.
pub(in super::super) fn ipv4(a: &mut Assembler, maps: &ForwardMaps, own: &Map, labels: &Labels) {
    const LENGTH: i16 = 20;
    // What claims to be from us is dropped where it is counted.
    a.load(Word, R2, HEADER, 12);
    a.store(Word, R10, KEY, R2);
    lookup(a, own);
    a.jump_if(R0, NotEqual, 0, labels.redirect);

    // The one's complement sum of a right header is all ones (RFC 1071).
    a.set(R2, 0);
    for offset in (0..LENGTH).step_by(2) {
        a.load(Half, R3, HEADER, offset);
        a.add_register(R2, R3);
    }
    for _ in 0..2 {
        a.copy(R3, R2);
        a.shift_right(R3, 16);
        a.and(R2, 0xffff);
        a.add_register(R2, R3);
    }
    a.jump_if(R2, NotEqual, 0xffff, labels.redirect);

    clear(a);
    length(a, 2);
    a.jump_if(R4, LessOrEqual, i32::from(LENGTH) - 1, labels.redirect);
    a.store(Half, R10, TOTAL_LENGTH, R4);
    complete(a, labels);
    a.store_value(Byte, R10, FAMILY, AF_INET);
    a.load(Byte, R2, HEADER, 1);
    a.store(Byte, R10, SERVICE, R2);
    for (from, to) in [(12, SOURCE), (16, DESTINATION)] {
        a.load(Word, R2, HEADER, from);
        a.store(Word, R10, to, R2);
    }
    a.load(Byte, R4, HEADER, 9);
    a.store(Byte, R10, PROTOCOL, R4);
    let portless = a.label();
    a.load(Half, R2, HEADER, 6);
    a.from_big_endian(R2, 16);
    a.and(R2, 0x3fff);
    a.jump_if(R2, NotEqual, 0, portless);
    ports(a, LENGTH);
    a.place(portless);
    route(a, maps, labels);

    trim(a, LENGTH, labels);
    a.load(Byte, R2, HEADER, 8);
    a.add(R2, -1);
    a.store(Byte, HEADER, 8, R2);
    // As the kernel's ip_decrease_ttl (RFC 1624): the checksum grows by what the TTL lost.
    a.load(Half, R2, HEADER, 10);
    a.from_big_endian(R2, 16);
    a.add(R2, 0x100);
    let no_carry = a.label();
    a.jump_if(R2, LessOrEqual, 0xfffe, no_carry);
    a.add(R2, 1);
    a.place(no_carry);
    a.from_big_endian(R2, 16);
    a.store(Half, HEADER, 10, R2);
    send(a, maps, labels);
}

/// Forwards the IPv6 packet at `HEADER`, without hop-by-hop options and with a hop limit of at
/// least 2.
pub(in super::super) fn ipv6(a: &mut Assembler, maps: &ForwardMaps, labels: &Labels) {
    const LENGTH: i16 = 40;
    clear(a);
    length(a, 4);
    a.add(R4, i32::from(LENGTH));
    // Beyond what the field holds, and beyond any interface's MTU.
    a.jump_if(R4, GreaterOrEqual, 0x1_0000, labels.redirect);
    a.store(Half, R10, TOTAL_LENGTH, R4);
    complete(a, labels);
    a.store_value(Byte, R10, FAMILY, AF_INET6);
    a.load(Word, R2, HEADER, 0);
    a.from_big_endian(R2, 32);
    a.and(R2, 0x0fff_ffff);
    a.from_big_endian(R2, 32);
    a.store(Word, R10, SERVICE, R2);
    for (from, to) in [(8, SOURCE), (24, DESTINATION)] {
        for offset in [0, 4, 8, 12] {
            a.load(Word, R2, HEADER, from + offset);
            a.store(Word, R10, to + offset, R2);
        }
    }
    a.load(Byte, R4, HEADER, 6);
    a.store(Byte, R10, PROTOCOL, R4);
    ports(a, LENGTH);
    route(a, maps, labels);

    trim(a, LENGTH, labels);
    a.load(Byte, R2, HEADER, 7);
    a.add(R2, -1);
    a.store(Byte, HEADER, 7, R2);
    send(a, maps, labels);
}

/// Clears the parameters: the kernel reads all of them.
fn clear(a: &mut Assembler) {
    for offset in (0..PARAMETERS_SIZE).step_by(8) {
        a.store_value(Double, R10, PARAMETERS + offset, 0);
    }
}

/// `R4 =` the length field at this place of the header. That it has 16 bits is said once more:
/// the verifier of Linux 6.12 forgets it of numbers whose bytes were swapped.
fn length(a: &mut Assembler, offset: i16) {
    a.load(Half, R4, HEADER, offset);
    a.from_big_endian(R4, 16);
    a.and(R4, 0xffff);
}

/// Notes how many bytes follow the packet of `R4` bytes; to the socket where it is cut short.
fn complete(a: &mut Assembler, labels: &Labels) {
    a.copy(R2, HEADER);
    a.add_register(R2, R4);
    a.jump_if_register(R2, Greater, END, labels.redirect);
    a.copy(R3, END);
    a.subtract_register(R3, R2);
    a.store(Double, R10, PADDING, R3);
}

/// The ports of protocol `R4`, which may decide between routes of equal cost.
fn ports(a: &mut Assembler, header: i16) {
    let (has_ports, none) = (a.label(), a.label());
    a.jump_if(R4, Equal, PROTOCOL_TCP, has_ports);
    a.jump_if(R4, NotEqual, PROTOCOL_UDP, none);
    a.place(has_ports);
    a.copy(R2, HEADER);
    a.add(R2, i32::from(header) + 4);
    a.jump_if_register(R2, Greater, END, none);
    for (from, to) in [(header, SOURCE_PORT), (header + 2, DESTINATION_PORT)] {
        a.load(Half, R2, HEADER, from);
        a.store(Half, R10, to, R2);
    }
    a.place(none);
}

/// Asks the kernel for the way; to the socket unless it leads out of an interface that takes
/// frames from us.
fn route(a: &mut Assembler, maps: &ForwardMaps, labels: &Labels) {
    a.load(Word, R2, CONTEXT, MD_INGRESS_IFINDEX);
    a.store(Word, R10, IFINDEX, R2);
    a.copy(R1, CONTEXT);
    a.copy(R2, R10);
    a.add(R2, i32::from(PARAMETERS));
    a.set(R3, i32::from(PARAMETERS_SIZE));
    a.set(R4, 0);
    a.call(helper::FIB_LOOKUP);
    a.jump_if(R0, NotEqual, 0, labels.redirect);
    lookup_at(a, &maps.outs, IFINDEX);
    a.jump_if(R0, Equal, 0, labels.redirect);
    a.load(Word, R2, R0, 0);
    a.store(Word, R10, SLOT, R2);
}

/// Cuts off what follows the packet, as the kernel does.
fn trim(a: &mut Assembler, header: i16, labels: &Labels) {
    let trimmed = a.label();
    a.load(Double, R3, R10, PADDING);
    a.jump_if(R3, Equal, 0, trimmed);
    a.set(R2, 0);
    a.subtract_register(R2, R3);
    a.copy(R1, CONTEXT);
    a.call(helper::XDP_ADJUST_TAIL);
    a.jump_if(R0, NotEqual, 0, labels.redirect);
    a.load(Word, HEADER, CONTEXT, MD_DATA);
    a.load(Word, END, CONTEXT, MD_DATA_END);
    a.add(HEADER, 14);
    a.copy(R2, HEADER);
    a.add(R2, i32::from(header));
    a.jump_if_register(R2, Greater, END, labels.redirect);
    a.place(trimmed);
}

/// Addresses the frame to the next hop and sends it.
fn send(a: &mut Assembler, maps: &ForwardMaps, labels: &Labels) {
    for (size, from, to) in [
        (Half, DESTINATION_MAC, -14),
        (Word, DESTINATION_MAC + 2, -12),
        (Word, SOURCE_MAC, -8),
        (Half, SOURCE_MAC + 4, -4),
    ] {
        a.load(size, R2, R10, from);
        a.store(size, HEADER, to, R2);
    }
    let sent = a.label();
    a.map(R1, maps.devices.as_fd());
    a.load(Word, R2, R10, IFINDEX);
    a.set(R3, XDP_DROP);
    a.call(helper::REDIRECT_MAP);
    a.store(Double, R10, KEY, R0);
    a.jump_if(R0, Equal, XDP_REDIRECT, sent);
    expect(a, Verdict::NoWayOut);
    a.jump(labels.count_and_return);

    a.place(sent);
    expect(a, Verdict::Forwarded);
    lookup_at(a, &maps.forwarded, SLOT);
    a.jump_if(R0, Equal, 0, labels.count_and_return);
    // Packets and bytes, those of this processor.
    a.load(Double, R2, R0, 0);
    a.add(R2, 1);
    a.store(Double, R0, 0, R2);
    a.copy(R5, END);
    a.subtract_register(R5, HEADER);
    a.load(Double, R2, R0, 8);
    a.add_register(R2, R5);
    a.add(R2, 14);
    a.store(Double, R0, 8, R2);
    a.jump(labels.count_and_return);
}
