//! Reports to the kernel on an association that is used in its place: its sequence numbers, the
//! traffic that it has carried, and the need to replace it.
//!
//! An IKE daemon then sees the traffic and replaces keys in time, and the kernel continues with the
//! right numbers when it takes over the tunnel.

use super::super::exchange::Exchange;
use super::super::frame::Request;
use super::model::{Association, Current};
use netlink_packet_core::NLM_F_REPLACE;
use netlink_sys::protocols::NETLINK_XFRM;
use std::io;
use std::net::IpAddr;

const XFRM_MSG_EXPIRE: u16 = 0x18;
const XFRM_MSG_NEWAE: u16 = 0x1e;
const XFRMA_LTIME_VAL: u16 = 9;
const XFRMA_REPLAY_VAL: u16 = 10;
const XFRMA_REPLAY_ESN_VAL: u16 = 23;
/// `struct xfrm_user_expire`: an association, and whether it has ended.
const USER_EXPIRE: usize = 232;
/// Upper bound for the words that the kernel accepts (XFRMA_REPLAY_ESN_MAX is 4096 numbers).
const MOST_WORDS: u32 = 128;

/// State of an association of the kernel that is used elsewhere.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// Destination of its packets.
    pub destination: IpAddr,
    /// Source of its packets.
    pub source: IpAddr,
    /// The security parameter index.
    pub spi: u32,
    /// IP protocol.
    pub protocol: u8,
    /// Words of the bitmap, as in [`Association`].
    pub bitmap_words: Option<u32>,
    /// Size of the anti-replay window.
    pub window: u32,
    /// Last sequence number that was sent.
    pub sent: u64,
    /// Highest sequence number that was received.
    pub received: u64,
    /// Traffic carried so far, including the kernel's own share.
    pub current: Current,
}

impl Report {
    /// Makes a report that holds only the kernel's own figures.
    pub fn new(of: &Association) -> Self {
        Self {
            destination: of.destination,
            source: of.source,
            spi: of.spi,
            protocol: of.protocol,
            bitmap_words: of.bitmap_words,
            window: of.window,
            sent: of.sent,
            received: of.received,
            current: of.current,
        }
    }

    /// Sends the numbers and counters to the kernel.
    ///
    /// # Errors
    /// When it refuses them; `NotFound` if it no longer has the association.
    pub fn send(&self) -> io::Result<()> {
        ask(self.numbers())
    }

    /// Notifies the kernel, and through it the IKE daemon, that the association should be replaced,
    /// or, if `ended`, that it has ended: the kernel then deletes it.
    ///
    /// # Errors
    /// As [`Self::send`].
    pub fn expire(&self, ended: bool) -> io::Result<()> {
        ask(self.expiry(ended))
    }

    /// Makes an XFRM_MSG_NEWAE.
    fn numbers(&self) -> Request {
        let mut body = address(self.destination).to_vec();
        body.extend(self.spi.to_be_bytes());
        body.extend(family(self.destination).to_ne_bytes());
        body.extend([self.protocol, 0]);
        body.extend(address(self.source));
        // Flags and reqid, which the kernel ignores here.
        body.extend([0; 8]);
        let mut request = message(XFRM_MSG_NEWAE, NLM_F_REPLACE, &body);
        // All numbers below the highest are marked as received, so that the kernel accepts none of
        // them a second time.
        match self.bitmap_words.map(|words| words.min(MOST_WORDS)) {
            Some(words) => {
                let numbers = [
                    words,
                    self.sent as u32,
                    self.received as u32,
                    (self.sent >> 32) as u32,
                    (self.received >> 32) as u32,
                    self.window,
                ];
                let seen = if self.received == 0 { 0 } else { u32::MAX };
                let bitmap = std::iter::repeat_n(seen, words as usize);
                attribute(&mut request, XFRMA_REPLAY_ESN_VAL, numbers.into_iter().chain(bitmap));
            }
            None => {
                let seen = if self.received == 0 { 0 } else { u32::MAX };
                let numbers = [self.sent as u32, self.received as u32, seen];
                attribute(&mut request, XFRMA_REPLAY_VAL, numbers.into_iter());
            }
        }
        let Current { bytes, packets, added, used } = self.current;
        let halves = |number: u64| {
            let [a, b, c, d, e, f, g, h] = number.to_ne_bytes();
            [u32::from_ne_bytes([a, b, c, d]), u32::from_ne_bytes([e, f, g, h])]
        };
        let counters = [bytes, packets, added, used].into_iter().flat_map(halves);
        attribute(&mut request, XFRMA_LTIME_VAL, counters);
        request
    }

    /// Makes an XFRM_MSG_EXPIRE. The kernel uses only the fields that identify the association.
    fn expiry(&self, ended: bool) -> Request {
        let mut body = [0; USER_EXPIRE];
        body[56..72].copy_from_slice(&address(self.destination));
        body[72..76].copy_from_slice(&self.spi.to_be_bytes());
        body[76] = self.protocol;
        body[80..96].copy_from_slice(&address(self.source));
        body[212..214].copy_from_slice(&family(self.destination).to_ne_bytes());
        body[224] = ended.into();
        message(XFRM_MSG_EXPIRE, 0, &body)
    }
}

pub(super) fn family(address: IpAddr) -> u16 {
    match address {
        IpAddr::V4(_) => libc::AF_INET as u16,
        IpAddr::V6(_) => libc::AF_INET6 as u16,
    }
}

pub(super) fn address(address: IpAddr) -> [u8; 16] {
    match address {
        IpAddr::V4(address) => {
            let [a, b, c, d] = address.octets();
            [a, b, c, d, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]
        }
        IpAddr::V6(address) => address.octets(),
    }
}

fn attribute(request: &mut Request, kind: u16, words: impl Iterator<Item = u32>) {
    let value: Vec<u8> = words.flat_map(u32::to_ne_bytes).collect();
    request.attribute(kind, &value);
}

pub(super) fn message(kind: u16, flags: u16, body: &[u8]) -> Request {
    let mut request = Request::new(kind, flags);
    request.put(body);
    request
}

/// Sends a request, and waits until the kernel has processed it.
pub(super) fn ask(request: Request) -> io::Result<()> {
    let done = Exchange::open(NETLINK_XFRM)?.ask(request, &mut [0; 512], |_| {});
    done.map_err(|error| match error.raw_os_error() {
        Some(libc::ESRCH) => io::Error::from(io::ErrorKind::NotFound),
        _ => error,
    })
}

#[cfg(test)]
mod tests {
    use super::super::decode;
    use super::*;

    const HEADER: usize = 16;

    fn report(bitmap_words: Option<u32>) -> Report {
        Report {
            destination: [192, 0, 2, 2].into(),
            source: [192, 0, 2, 1].into(),
            spi: 0x1001,
            protocol: 50,
            bitmap_words,
            window: 64,
            sent: 5 << 32 | 7,
            received: 6 << 32 | 9,
            current: Current { bytes: 1 << 40, packets: 3, added: 4, used: 5 },
        }
    }

    #[test]
    fn messages_are_laid_out_as_the_kernel_has_them() {
        // struct xfrm_aevent_id is 48 bytes; the attributes follow it.
        let short = report(None).numbers().finish(0);
        assert_eq!(short.len(), HEADER + 48 + 16 + 36);
        assert_eq!(short[..4], (short.len() as u32).to_ne_bytes());
        assert_eq!(short[HEADER + 16..HEADER + 20], [0, 0, 0x10, 1]);
        assert_eq!(
            short[HEADER + 52..HEADER + 60],
            [7_u32.to_ne_bytes(), 9_u32.to_ne_bytes()].concat()[..]
        );
        let long = report(Some(2)).numbers().finish(0);
        assert_eq!(long.len(), HEADER + 48 + 4 + 24 + 8 + 36);
        // The reported values are read back unchanged.
        let expiry = report(None).expiry(true).finish(0);
        assert_eq!(expiry.len(), HEADER + USER_EXPIRE);
        let read = decode::association(&expiry[HEADER..HEADER + 224]).unwrap();
        assert_eq!((read.spi, read.protocol), (0x1001, 50));
        assert_eq!(read.destination, report(None).destination);
        assert_eq!(read.source, report(None).source);
        assert_eq!(expiry[HEADER + 224], 1);
    }

    #[test]
    fn an_association_that_is_gone_is_not_found() {
        match report(None).send() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => wattline_needs::machine(format_args!(
                "the kernel has no XFRM, or we no right ({error})"
            )),
            Ok(()) => panic!("the kernel has an association that nobody made"),
        }
    }
}
