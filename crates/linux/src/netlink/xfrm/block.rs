//! Policies of our own in the kernel: what it must not forward in clear.
//!
//! A policy needs neither an association nor a protocol to be built in: one that blocks is held
//! against every packet that the kernel forwards. It outlives the process that made it, so ours
//! are told from those of others, and from those of another router of ours, by their index.

use super::model::{PolicyAction, PolicyDirection};
use super::report::{address, ask, family, message};
use super::{BUFFER_BYTES, XFRM_MSG_GETPOLICY, decode, dump};
use ipnet::IpNet;
use std::io;

const XFRM_MSG_NEWPOLICY: u16 = 0x13;
const XFRM_MSG_DELPOLICY: u16 = 0x14;
const XFRM_MSG_UPDPOLICY: u16 = 0x19;
/// Lengths of `struct xfrm_userpolicy_info` and `struct xfrm_userpolicy_id`.
const USERPOLICY_INFO: usize = 168;
const USERPOLICY_ID: usize = 64;
/// Where the index stands in the former.
const INDEX: usize = 156;
/// `struct xfrm_lifetime_cfg`: four limits without one.
const LIMITS: std::ops::Range<usize> = 56..88;

/// A policy that drops packets or lets them pass as they are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Block {
    /// Where packets come from.
    pub source: IpNet,
    /// Where they go, of the same family.
    pub destination: IpNet,
    /// Which way.
    pub direction: PolicyDirection,
    /// What becomes of them.
    pub action: PolicyAction,
    /// The lowest decides.
    pub priority: u32,
}

/// The policies of one owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockOwner(u8);

impl BlockOwner {
    /// Most policies of an owner.
    pub const MOST: u32 = 1 << 13;
    /// What indices begin with: the kernel counts its own up from 8.
    const FIRST: u32 = 0x5700_0000;

    /// That of this name. One in 256 other names is the same.
    pub fn named(name: &[u8]) -> Self {
        // FNV-1a, folded.
        let hash = name.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
        });
        Self((hash ^ hash >> 32 ^ hash >> 16 ^ hash >> 8) as u8)
    }

    /// The lowest three bits are the direction, as the kernel wants it.
    fn index(self, number: u32, direction: PolicyDirection) -> u32 {
        Self::FIRST | u32::from(self.0) << 16 | number << 3 | u32::from(code(direction))
    }

    fn owns(self, index: u32) -> bool {
        index & 0xffff_0000 == self.index(0, PolicyDirection::In) & 0xffff_0000
    }

    /// Puts these policies into the kernel, in place of those that this owner has there. Gives
    /// those that somebody else's policy of the same addresses and direction stands in for: these
    /// are left as they are.
    ///
    /// # Errors
    /// When the kernel has no XFRM, or refuses them: some may be there then. More than
    /// [`Self::MOST`] are `InvalidInput`.
    pub fn install(self, blocks: &[Block]) -> io::Result<Vec<Block>> {
        if blocks.len() > Self::MOST as usize {
            let most = Self::MOST;
            let message = format!("{} policies, where {most} are the most", blocks.len());
            return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
        }
        let known = listed()?;
        let mut kept = Vec::new();
        let mut others = Vec::new();
        for (number, block) in (0..).zip(blocks) {
            let same = known.iter().find(|known| known.is_for(block));
            let index = match same {
                Some(known) if !self.owns(known.index) => {
                    others.push(block.clone());
                    continue;
                }
                // It keeps its index. Nothing passes in between.
                Some(known) => known.index,
                None => self.free_index(number, block.direction, &known, &kept),
            };
            let kind = if same.is_some() { XFRM_MSG_UPDPOLICY } else { XFRM_MSG_NEWPOLICY };
            ask(message(kind, 0, &block.body(index)))?;
            kept.push(index);
        }
        let old = known.iter().map(|known| known.index);
        for index in old.filter(|index| self.owns(*index) && !kept.contains(index)) {
            delete(index)?;
        }
        Ok(others)
    }

    /// An index that no policy of this owner has.
    fn free_index(
        self,
        number: u32,
        direction: PolicyDirection,
        known: &[Known],
        kept: &[u32],
    ) -> u32 {
        let taken =
            |index: &u32| kept.contains(index) || known.iter().any(|known| known.index == *index);
        let numbers = (number..Self::MOST).chain(0..number);
        let mut free = numbers.map(|number| self.index(number, direction));
        // With all taken the kernel chooses one itself, and the policy is nobody's.
        free.find(|index| !taken(index)).unwrap_or(0)
    }

    /// Takes all policies of this owner away; says how many there were.
    ///
    /// # Errors
    /// When the kernel has no XFRM, or does not answer.
    pub fn remove_all(self) -> io::Result<usize> {
        let own: Vec<u32> =
            listed()?.iter().map(|known| known.index).filter(|index| self.owns(*index)).collect();
        own.iter().try_for_each(|index| delete(*index))?;
        Ok(own.len())
    }
}

/// A policy that the kernel has.
struct Known {
    index: u32,
    source: IpNet,
    destination: IpNet,
    direction: PolicyDirection,
    /// By more than addresses.
    otherwise: bool,
}

impl Known {
    fn is_for(&self, block: &Block) -> bool {
        (self.source, self.destination, self.direction)
            == (block.source, block.destination, block.direction)
            && !self.otherwise
    }
}

fn listed() -> io::Result<Vec<Known>> {
    let mut known = Vec::new();
    let mut buffer = zeroize::Zeroizing::new(vec![0; BUFFER_BYTES]);
    dump(XFRM_MSG_GETPOLICY, USERPOLICY_ID, &mut buffer, |body| {
        let index = body.get(INDEX..).and_then(|bytes| bytes.first_chunk());
        if let (Some(policy), Some(index)) = (decode::policy(body), index) {
            known.push(Known {
                index: u32::from_ne_bytes(*index),
                source: policy.source,
                destination: policy.destination,
                direction: policy.direction,
                otherwise: policy.narrower || policy.bound,
            });
        }
    })?;
    Ok(known)
}

fn delete(index: u32) -> io::Result<()> {
    let mut body = [0; USERPOLICY_ID];
    body[56..60].copy_from_slice(&index.to_ne_bytes());
    body[60] = (index & 7) as u8;
    match ask(message(XFRM_MSG_DELPOLICY, 0, &body)) {
        // Somebody else has taken it away.
        Err(error) if error.raw_os_error() == Some(libc::ENOENT) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

fn code(direction: PolicyDirection) -> u8 {
    match direction {
        PolicyDirection::In => 0,
        PolicyDirection::Out => 1,
        PolicyDirection::Forward => 2,
    }
}

impl Block {
    /// `struct xfrm_userpolicy_info`.
    fn body(&self, index: u32) -> [u8; USERPOLICY_INFO] {
        let mut body = [0; USERPOLICY_INFO];
        body[..16].copy_from_slice(&address(self.destination.network()));
        body[16..32].copy_from_slice(&address(self.source.network()));
        body[40..42].copy_from_slice(&family(self.source.addr()).to_ne_bytes());
        body[42] = self.destination.prefix_len();
        body[43] = self.source.prefix_len();
        body[LIMITS].fill(0xff);
        body[152..156].copy_from_slice(&self.priority.to_ne_bytes());
        body[INDEX..INDEX + 4].copy_from_slice(&index.to_ne_bytes());
        body[160] = code(self.direction);
        body[161] = u8::from(self.action == PolicyAction::Block);
        body
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
            priority: 3,
        }
    }

    #[test]
    fn what_is_said_is_understood_as_the_same() {
        for (source, destination) in
            [("10.1.0.0/16", "10.2.0.0/24"), ("2001:db8::/32", "2001:db8:1::/48")]
        {
            let block = block(source, destination, PolicyAction::Block);
            let read = decode::policy(&block.body(9)).unwrap();
            assert_eq!((read.source, read.destination), (block.source, block.destination));
            assert_eq!((read.direction, read.action), (block.direction, block.action));
            assert_eq!((read.priority, read.narrower, read.bound), (3, false, false));
        }
    }

    #[test]
    fn owners_know_their_own() {
        let (one, other) = (BlockOwner(1), BlockOwner(2));
        for direction in [PolicyDirection::In, PolicyDirection::Out, PolicyDirection::Forward] {
            for number in [0, 1, BlockOwner::MOST - 1] {
                let index = one.index(number, direction);
                assert!(one.owns(index) && !other.owns(index));
                assert_eq!(index & 7, u32::from(code(direction)));
            }
        }
        assert!(!one.owns(8) && !one.owns(0));
        assert_ne!(BlockOwner::named(b"/var/a"), BlockOwner::named(b"/var/b"));
    }

    /// In a namespace of its own, with `ip xfrm policy` to look at it.
    #[test]
    fn policies_come_change_and_go_and_others_stay() {
        let name = format!("wl-block-{}", std::process::id());
        let namespace = match crate::namespace::Namespace::create(&name) {
            Ok(namespace) => namespace,
            Err(error) => return wattline_needs::rights(&error),
        };
        let add = "xfrm policy add src 10.1.0.0/16 dst 10.9.0.0/16 dir fwd action block";
        if let Err(error) = namespace.ip(add) {
            return wattline_needs::machine(format_args!("the kernel has no XFRM ({error})"));
        }
        let owner = BlockOwner::named(b"here");
        let there = || {
            let known = namespace.enter(|| listed().unwrap()).unwrap();
            let mut known: Vec<String> = known
                .iter()
                .map(|it| format!("{} {}", it.destination, owner.owns(it.index)))
                .collect();
            known.sort();
            known
        };
        let install =
            |blocks: &[Block]| namespace.enter(|| owner.install(blocks)).unwrap().unwrap();
        let two =
            ["10.2.0.0/16", "10.9.0.0/16"].map(|to| block("10.1.0.0/16", to, PolicyAction::Block));
        assert_eq!(install(&two), [two[1].clone()], "somebody else's stands");
        assert_eq!(there(), ["10.2.0.0/16 true", "10.9.0.0/16 false"]);
        // The next router: one stays, one is new, one goes.
        let next = [
            block("2001:db8::/32", "2001:db8:1::/48", PolicyAction::Block),
            block("10.1.0.0/16", "10.2.0.0/16", PolicyAction::Allow),
        ];
        assert!(install(&next).is_empty());
        assert_eq!(there(), ["10.2.0.0/16 true", "10.9.0.0/16 false", "2001:db8:1::/48 true"]);
        assert!(install(&next[..1]).is_empty());
        assert_eq!(there(), ["10.9.0.0/16 false", "2001:db8:1::/48 true"]);
        assert_eq!(namespace.enter(|| owner.remove_all()).unwrap().unwrap(), 1);
        assert_eq!(namespace.enter(|| owner.remove_all()).unwrap().unwrap(), 0);
        assert_eq!(there(), ["10.9.0.0/16 false"]);
    }
}
