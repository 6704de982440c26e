//! Wattline's own policies in the kernel, which keep it from forwarding packets in clear.
//!
//! A blocking policy needs neither an association nor a built-in protocol: the kernel compares it
//! with every packet that it forwards. It outlives the process that made it.
//!
//! When the kernel searches for the policy that a new one replaces, it compares all bytes of the
//! selector. When it searches for the policy of a packet, it ignores the field `user`, which
//! therefore holds the owner. Policies of other programs, such as an IKE daemon, then never replace
//! Wattline's, nor the other way round.

use super::decode::{self, OURS};
use super::model::{PolicyAction, PolicyDirection};
use super::report::{address, ask, family, message};
use super::{BUFFER_BYTES, XFRM_MSG_GETPOLICY, dump};
use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use std::collections::{BTreeSet, HashMap, HashSet};
use std::io;

const XFRM_MSG_DELPOLICY: u16 = 0x14;
const XFRM_MSG_UPDPOLICY: u16 = 0x19;
/// Lengths of `struct xfrm_userpolicy_info`, `struct xfrm_userpolicy_id` and `struct xfrm_selector`.
const USERPOLICY_INFO: usize = 168;
const USERPOLICY_ID: usize = 64;
const SELECTOR: usize = 56;
/// Offsets in the first.
const INTERFACE: usize = 48;
const USER: usize = 52;
const ADDED: usize = 136;
const PRIORITY: usize = 152;
const INDEX: usize = 156;
const DIRECTION: usize = 160;
const ACTION: usize = 161;
/// `struct xfrm_lifetime_cfg`: four limits, all unlimited.
const LIMITS: std::ops::Range<usize> = 56..88;
const ICMPV6: u8 = 58;

/// Direction and selector; the kernel has at most one policy for each.
type SelectorKey = (u8, [u8; SELECTOR]);

/// A policy that drops packets or lets them pass as they are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Block {
    /// Prefix of the source addresses.
    pub source: IpNet,
    /// Prefix of the destination addresses, of the same family.
    pub destination: IpNet,
    /// Direction of the packets.
    pub direction: PolicyDirection,
    /// Treatment of the packets.
    pub action: PolicyAction,
    /// Restriction to some of the packets between the prefixes.
    pub only: Option<Only>,
}

/// A subset of the packets between two prefixes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Only {
    /// ICMPv6 of one type.
    Icmp6(u8),
    /// Packets that are sent through one interface, by its index.
    To(u32),
}

impl Block {
    /// `struct xfrm_selector`.
    fn selector(&self, user: u32) -> [u8; SELECTOR] {
        let mut body = [0; SELECTOR];
        body[..16].copy_from_slice(&address(self.destination.network()));
        body[16..32].copy_from_slice(&address(self.source.network()));
        body[40..42].copy_from_slice(&family(self.source.addr()).to_ne_bytes());
        body[42] = self.destination.prefix_len();
        body[43] = self.source.prefix_len();
        match self.only {
            Some(Only::Icmp6(kind)) => {
                // The type stands for the source port.
                body[36..38].copy_from_slice(&u16::from(kind).to_be_bytes());
                body[38..40].fill(0xff);
                body[44] = ICMPV6;
            }
            Some(Only::To(index)) => body[INTERFACE..USER].copy_from_slice(&index.to_ne_bytes()),
            None => {}
        }
        body[USER..].copy_from_slice(&user.to_ne_bytes());
        body
    }

    fn key(&self, owner: BlockOwner) -> SelectorKey {
        (code(self.direction), self.selector(owner.0))
    }

    /// `struct xfrm_userpolicy_info`.
    fn body(&self, user: u32, priority: u32) -> [u8; USERPOLICY_INFO] {
        let mut body = [0; USERPOLICY_INFO];
        body[..SELECTOR].copy_from_slice(&self.selector(user));
        body[LIMITS].fill(0xff);
        body[PRIORITY..INDEX].copy_from_slice(&priority.to_ne_bytes());
        body[DIRECTION] = code(self.direction);
        body[ACTION] = u8::from(self.action == PolicyAction::Block);
        body
    }
}

/// The owner of policies in the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct BlockOwner(u32);

impl BlockOwner {
    /// Most policies of an owner.
    pub const MOST: usize = 0xfffe;
    /// Priority of policies for one interface; the others follow in order. The highest number
    /// applies last, so a policy of an IKE daemon or an administrator precedes Wattline's.
    pub const PRIORITY: u32 = 0xffff_0000;

    /// Returns the owner with this name. One in 16 million other names has the same number.
    pub fn named(name: &[u8]) -> Self {
        // FNV-1a, folded.
        let hash = name.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
        });
        Self(OURS << 24 | (hash ^ hash >> 24 ^ hash >> 48) as u32 & 0x00ff_ffff)
    }

    /// Returns the number that the kernel shows as the user of the policies (`ip -s xfrm policy`).
    pub fn number(self) -> u32 {
        self.0
    }

    /// Adds these policies; the first that matches a packet applies. Policies that the owner has
    /// already are kept, with the treatment and the order given here. Returns the number of
    /// policies that the kernel did not have in this form.
    ///
    /// # Errors
    /// When the kernel has no XFRM, or refuses them: some may have been added then. More than
    /// [`Self::MOST`] are `InvalidInput`.
    pub fn install(self, blocks: &[Block]) -> io::Result<usize> {
        if blocks.len() > Self::MOST {
            let most = Self::MOST;
            let message = format!("{} policies, where {most} are the most", blocks.len());
            return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
        }
        let known = listed()?;
        let known: HashMap<_, _> = known.iter().map(|it| (it.key(), it)).collect();
        let (mut last, mut written) = (Self::PRIORITY, 0);
        for block in blocks {
            let of_interface = matches!(block.only, Some(Only::To(_)));
            last += u32::from(!of_interface);
            let priority = if of_interface { Self::PRIORITY } else { last };
            let same = known.get(&block.key(self));
            if same.is_none_or(|it| (it.priority, it.action) != (priority, block.action)) {
                ask(message(XFRM_MSG_UPDPOLICY, 0, &block.body(self.0, priority)))?;
                written += 1;
            }
        }
        Ok(written)
    }

    /// Removes all policies of this owner except these; returns their number.
    ///
    /// # Errors
    /// When the kernel has no XFRM, or does not answer.
    pub fn retain(self, blocks: &[Block]) -> io::Result<usize> {
        let kept: HashSet<_> = blocks.iter().map(|block| block.key(self)).collect();
        let owned = |known: &Known| known.owner == self.0 || known.is_of_earlier_version();
        remove(|known| owned(known) && !kept.contains(&known.key()))
    }

    /// Returns true if a router uses them now: one policy is for an existing interface.
    ///
    /// # Errors
    /// As [`Self::retain`].
    pub fn is_in_use(self) -> io::Result<bool> {
        let exists = |known: &Known| known.interface().is_some_and(has_interface);
        Ok(listed()?.iter().any(|known| known.owner == self.0 && exists(known)))
    }

    /// Returns the owners of all policies in the kernel.
    ///
    /// # Errors
    /// As [`Self::retain`].
    pub fn all() -> io::Result<BTreeSet<Self>> {
        let owners = listed()?.into_iter().map(|known| known.owner);
        Ok(owners.filter(|owner| owner >> 24 == OURS).map(Self).collect())
    }

    /// Removes the policies of all owners; returns their number.
    ///
    /// # Errors
    /// As [`Self::retain`].
    pub fn remove_all() -> io::Result<usize> {
        remove(|known| known.is_ours())
    }

    /// Returns the policies in the kernel that block packets in a direction, with their owners.
    ///
    /// # Errors
    /// As [`Self::retain`].
    pub fn blocked(direction: PolicyDirection) -> io::Result<Vec<Blocked>> {
        let mut ours = listed()?;
        ours.retain(|it| it.is_ours() && it.action == PolicyAction::Block);
        ours.retain(|it| it.direction == direction);
        ours.sort_by_key(|it| (it.owner, it.priority));
        let blocked = |known: Known| {
            let (source, destination) = known.prefixes()?;
            Some(Blocked { owner: Self(known.owner), source, destination, added: known.added })
        };
        Ok(ours.into_iter().filter_map(blocked).collect())
    }
}

/// A policy of Wattline in the kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Blocked {
    /// Owner.
    pub owner: BlockOwner,
    /// Prefix of the source addresses.
    pub source: IpNet,
    /// Prefix of the destination addresses.
    pub destination: IpNet,
    /// Time of its creation, in seconds of the Unix epoch.
    pub added: u64,
}

/// A policy in the kernel.
struct Known {
    selector: [u8; SELECTOR],
    direction: PolicyDirection,
    action: PolicyAction,
    priority: u32,
    index: u32,
    owner: u32,
    added: u64,
}

impl Known {
    fn read(body: &[u8]) -> Option<Self> {
        let word = |at: usize| body.get(at..)?.first_chunk().map(|it| u32::from_ne_bytes(*it));
        Some(Self {
            selector: *body.first_chunk()?,
            direction: match *body.get(DIRECTION)? {
                0 => PolicyDirection::In,
                1 => PolicyDirection::Out,
                2 => PolicyDirection::Forward,
                _ => return None,
            },
            action: if *body.get(ACTION)? == 0 { PolicyAction::Allow } else { PolicyAction::Block },
            priority: word(PRIORITY)?,
            index: word(INDEX)?,
            owner: word(USER)?,
            added: body.get(ADDED..)?.first_chunk().map(|it| u64::from_ne_bytes(*it))?,
        })
    }

    fn key(&self) -> SelectorKey {
        (code(self.direction), self.selector)
    }

    /// Returns the only interface whose packets it selects.
    fn interface(&self) -> Option<u32> {
        let index = self.selector[INTERFACE..].first_chunk().map(|it| u32::from_ne_bytes(*it));
        index.filter(|index| *index != 0)
    }

    fn is_ours(&self) -> bool {
        decode::are_ours(self.owner, self.index)
    }

    /// Returns true for policies of versions that set the index; the kernel's own indices start at
    /// 8.
    fn is_of_earlier_version(&self) -> bool {
        self.owner == 0 && self.index >> 24 == OURS
    }

    /// Returns source and destination.
    fn prefixes(&self) -> Option<(IpNet, IpNet)> {
        let ipv4 =
            u16::from_ne_bytes([self.selector[40], self.selector[41]]) == libc::AF_INET as u16;
        let prefix = |at: usize, length: u8| -> Option<IpNet> {
            let bytes: [u8; 16] = *self.selector.get(at..)?.first_chunk()?;
            if ipv4 {
                let address = [bytes[0], bytes[1], bytes[2], bytes[3]];
                return Some(Ipv4Net::new(address.into(), length).ok()?.into());
            }
            Some(Ipv6Net::new(bytes.into(), length).ok()?.into())
        };
        Some((prefix(16, self.selector[43])?, prefix(0, self.selector[42])?))
    }
}

fn has_interface(index: u32) -> bool {
    use rustix::net::{AddressFamily, SocketType, netdevice, socket};
    let socket = socket(AddressFamily::INET, SocketType::DGRAM, None);
    socket.and_then(|socket| netdevice::index_to_name(&socket, index)).is_ok()
}

fn listed() -> io::Result<Vec<Known>> {
    let mut known = Vec::new();
    let mut buffer = zeroize::Zeroizing::new(vec![0; BUFFER_BYTES]);
    dump(XFRM_MSG_GETPOLICY, USERPOLICY_ID, &mut buffer, |body| known.extend(Known::read(body)))?;
    Ok(known)
}

/// Removes policies; returns their number.
fn remove(chosen: impl Fn(&Known) -> bool) -> io::Result<usize> {
    let chosen: Vec<Known> = listed()?.into_iter().filter(chosen).collect();
    for Known { index, direction, .. } in &chosen {
        let mut body = [0; USERPOLICY_ID];
        body[56..60].copy_from_slice(&index.to_ne_bytes());
        body[60] = code(*direction);
        match ask(message(XFRM_MSG_DELPOLICY, 0, &body)) {
            // Another program has removed it.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            other => other?,
        }
    }
    Ok(chosen.len())
}

fn code(direction: PolicyDirection) -> u8 {
    match direction {
        PolicyDirection::In => 0,
        PolicyDirection::Out => 1,
        PolicyDirection::Forward => 2,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(source: &str, destination: &str, action: PolicyAction) -> Block {
        Block {
            source: source.parse().unwrap(),
            destination: destination.parse().unwrap(),
            direction: PolicyDirection::Forward,
            action,
            only: None,
        }
    }

    #[test]
    fn policies_are_read_as_they_were_written() {
        for (source, destination) in
            [("10.1.0.0/16", "10.2.0.0/24"), ("2001:db8::/32", "2001:db8:1::/48")]
        {
            let block = block(source, destination, PolicyAction::Block);
            let body = block.body(BlockOwner::named(b"x").0, 9);
            let read = decode::policy(&body).unwrap();
            assert_eq!((read.source, read.destination), (block.source, block.destination));
            assert_eq!((read.direction, read.action), (block.direction, block.action));
            assert_eq!((read.priority, read.narrower, read.bound), (9, false, false));
            let known = Known::read(&body).unwrap();
            assert_eq!(known.prefixes(), Some((block.source, block.destination)));
            assert!(known.key() == block.key(BlockOwner::named(b"x")) && decode::is_ours(&body));
            assert!(known.key() != block.key(BlockOwner::named(b"y")));
        }
        assert!(!decode::is_ours(
            &block("10.1.0.0/16", "10.2.0.0/24", PolicyAction::Block).body(0, 9)
        ));
    }

    /// Runs in its own namespace, with `ip xfrm policy` as another program.
    #[test]
    fn policies_come_change_and_go_and_others_stay() {
        let made = crate::namespace::Namespace::for_test(&[]).map_err(wattline_needs::rights);
        let Ok(namespace) = made else { return };
        let add = "xfrm policy add src 10.1.0.0/16 dst 10.9.0.0/16 dir fwd action block";
        if let Err(error) = namespace.ip(add) {
            return wattline_needs::machine(format_args!("the kernel has no XFRM ({error})"));
        }
        let earlier = "xfrm policy add src 10.1.0.0/16 dst 10.8.0.0/16 dir fwd \
                       index 1459617794 action block";
        namespace.ip(earlier).unwrap();
        let (owner, second) = (BlockOwner::named(b"here"), BlockOwner::named(b"there"));
        let there = || {
            let known = namespace.enter(|| listed().unwrap()).unwrap();
            let mut known: Vec<String> = known
                .iter()
                .map(|it| {
                    let (_, destination) = it.prefixes().unwrap();
                    format!("{destination} {:?} {}", it.action, it.owner == owner.0)
                })
                .collect();
            known.sort();
            known
        };
        let within =
            |act: &(dyn Fn() -> io::Result<usize> + Sync)| namespace.enter(act).unwrap().unwrap();
        let set = |owner: BlockOwner, blocks: &[Block]| {
            within(&|| owner.install(blocks).and_then(|_| owner.retain(blocks)))
        };
        let two =
            ["10.2.0.0/16", "10.9.0.0/16"].map(|to| block("10.1.0.0/16", to, PolicyAction::Block));
        let other = "10.9.0.0/16 Block false";
        assert_eq!(set(owner, &two), 1, "the policy of an earlier version is removed");
        let both = ["10.2.0.0/16 Block true", other, "10.9.0.0/16 Block true"];
        assert_eq!(there(), both);
        assert_eq!(set(owner, &two), 0);
        assert_eq!(there(), both, "set again, nothing is doubled");
        let blocked = namespace.enter(|| BlockOwner::blocked(PolicyDirection::Forward));
        let blocked = blocked.unwrap().unwrap();
        assert_eq!(blocked.len(), 2);
        assert!(blocked.iter().all(|it| it.owner == owner && it.added > 1_500_000_000));
        // The next configuration: one policy changes, one is added, one is removed.
        let next = [
            block("2001:db8::/32", "2001:db8:1::/48", PolicyAction::Block),
            block("10.1.0.0/16", "10.2.0.0/16", PolicyAction::Allow),
        ];
        assert_eq!(set(owner, &next), 1);
        assert_eq!(there(), ["10.2.0.0/16 Allow true", other, "2001:db8:1::/48 Block true"]);
        let loopback = Block { only: Some(Only::To(1)), ..next[0].clone() };
        let in_use = || namespace.enter(|| owner.is_in_use()).unwrap().unwrap();
        for (index, expected) in [(9999, false), (1, true)] {
            let one = Block { only: Some(Only::To(index)), ..loopback.clone() };
            within(&|| owner.install(std::slice::from_ref(&one)));
            assert_eq!(in_use(), expected);
        }
        assert_eq!(within(&|| owner.retain(&next)), 2);
        // A second owner has the same policies; they stay when the first owner's are removed.
        assert_eq!(set(second, &next), 0);
        assert_eq!(set(owner, &[]), 2);
        assert_eq!(there(), ["10.2.0.0/16 Allow false", other, "2001:db8:1::/48 Block false"]);
        assert_eq!(within(&BlockOwner::remove_all), 2);
        assert_eq!(there(), [other]);
    }
}
