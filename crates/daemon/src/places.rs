//! Places for connections to a control socket, limited so that clients cannot keep each other out.
//!
//! Members of the group share fewer places than there are, each user still fewer, and their
//! requests reach the daemon one at a time. The rest is for root and the user who runs the daemon.

use super::peer::Peer;
use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Maximum number of connections; each has its own thread.
pub(crate) const ALL: usize = 64;
/// Places that members of the group may take in total.
const OF_MEMBERS: usize = 48;
/// Places that one member may take.
const OF_MEMBER: usize = 16;
/// Maximum number of members' captures and traces. A router has four places for all.
const STREAMS_OF_MEMBERS: usize = 2;

/// Places that are taken, by user.
#[derive(Clone, Default)]
pub(crate) struct Places(Arc<Shared>);

#[derive(Default)]
struct Shared {
    taken: Mutex<Taken>,
    turn_ended: Condvar,
}

#[derive(Default)]
struct Taken {
    all: usize,
    by_member: BTreeMap<Option<u32>, usize>,
    streams: usize,
    /// True while the daemon answers a member.
    turn: bool,
}

impl Taken {
    fn member_count(&self) -> usize {
        self.by_member.values().sum()
    }
}

/// A place, until this is dropped.
pub(crate) struct Place {
    shared: Arc<Shared>,
    peer: Peer,
}

/// A member's capture or trace, or turn, until this is dropped.
pub(crate) struct Share {
    shared: Arc<Shared>,
    give_back: fn(&mut Taken),
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Places {
    /// Takes a place.
    ///
    /// # Errors
    /// Returns the limit that is reached.
    pub fn take(&self, peer: Peer) -> Result<Place, String> {
        let mut taken = self.0.lock();
        if taken.all >= ALL {
            return Err(format!("{ALL} connections are open, the maximum"));
        }
        if !peer.may_change {
            if taken.member_count() >= OF_MEMBERS {
                return Err(format!(
                    "{OF_MEMBERS} connections of members of the group are open, the maximum"
                ));
            }
            let own = taken.by_member.entry(peer.user).or_default();
            if *own >= OF_MEMBER {
                return Err(format!("{OF_MEMBER} connections of this user are open, the maximum"));
            }
            *own += 1;
        }
        taken.all += 1;
        drop(taken);
        Ok(Place { shared: Arc::clone(&self.0), peer })
    }
}

impl Place {
    /// Returns the user who has the place.
    pub fn peer(&self) -> Peer {
        self.peer
    }

    /// Waits until the daemon may be asked; root and the owner may at any time.
    ///
    /// # Errors
    /// Fails if that takes longer than `patience`.
    pub fn turn(&self, patience: Duration) -> Result<Option<Share>, String> {
        if self.peer.may_change {
            return Ok(None);
        }
        let taken = self.shared.lock();
        let waited = self.shared.turn_ended.wait_timeout_while(taken, patience, |it| it.turn);
        let (mut taken, waited) = waited.unwrap_or_else(PoisonError::into_inner);
        if waited.timed_out() {
            return Err("requests of other members come first: ask again".to_owned());
        }
        taken.turn = true;
        Ok(Some(self.share(|taken| taken.turn = false)))
    }

    /// Takes a place for a capture or trace.
    ///
    /// # Errors
    /// Returns the limit that is reached.
    pub fn stream(&self) -> Result<Option<Share>, String> {
        if self.peer.may_change {
            return Ok(None);
        }
        let mut taken = self.shared.lock();
        if taken.streams >= STREAMS_OF_MEMBERS {
            return Err(format!(
                "{STREAMS_OF_MEMBERS} captures and traces of members of the group run, the maximum"
            ));
        }
        taken.streams += 1;
        Ok(Some(self.share(|taken| taken.streams -= 1)))
    }

    fn share(&self, give_back: fn(&mut Taken)) -> Share {
        Share { shared: Arc::clone(&self.shared), give_back }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut taken = self.shared.lock();
        taken.all -= 1;
        if !self.peer.may_change
            && let Some(own) = taken.by_member.get_mut(&self.peer.user)
        {
            *own -= 1;
            if *own == 0 {
                taken.by_member.remove(&self.peer.user);
            }
        }
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        (self.give_back)(&mut self.shared.lock());
        self.shared.turn_ended.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROOT: Peer = Peer { user: Some(0), may_change: true };

    fn member(user: u32) -> Peer {
        Peer { user: Some(user), may_change: false }
    }

    fn all(places: &Places, peer: Peer) -> (Vec<Place>, String) {
        let mut taken = Vec::new();
        loop {
            match places.take(peer) {
                Ok(place) => taken.push(place),
                Err(why) => return (taken, why),
            }
        }
    }

    #[test]
    fn members_leave_places_for_each_other_and_for_root() {
        let places = Places::default();
        let (first, why) = all(&places, member(1000));
        assert_eq!((first.len(), why.contains("of this user")), (OF_MEMBER, true), "{why}");
        let others: Vec<_> = (1001..1100).flat_map(|user| all(&places, member(user)).0).collect();
        assert_eq!(first.len() + others.len(), OF_MEMBERS);
        let (of_root, why) = all(&places, ROOT);
        assert_eq!((of_root.len(), why.contains("64 connections")), (ALL - OF_MEMBERS, true));
        drop(first);
        assert_eq!(all(&places, member(2000)).0.len(), OF_MEMBER);
        drop((others, of_root));
        assert_eq!(all(&places, ROOT).0.len(), ALL);
    }

    #[test]
    fn members_take_turns_and_root_does_not_wait() {
        let places = Places::default();
        let [one, other] = [1000, 1001].map(|user| places.take(member(user)).unwrap());
        let root = places.take(ROOT).unwrap();
        let turn = one.turn(Duration::ZERO).unwrap();
        assert!(turn.is_some() && other.turn(Duration::from_millis(10)).is_err());
        assert!(root.turn(Duration::ZERO).is_ok());
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| other.turn(Duration::from_secs(60)).is_ok());
            drop(turn);
            assert!(waits.join().unwrap());
        });
    }

    #[test]
    fn members_leave_captures_for_root() {
        let places = Places::default();
        let one = places.take(member(1000)).unwrap();
        let streams: Vec<_> = (0..STREAMS_OF_MEMBERS).map(|_| one.stream().unwrap()).collect();
        assert!(one.stream().is_err());
        assert!(places.take(ROOT).unwrap().stream().is_ok());
        drop(streams);
        assert!(one.stream().is_ok());
    }
}
