//! The indirection tables of virtual cards: veth pairs whose sender's end has a steering classifier
//! ([`wattline_xdp::steer`]).

use super::order::Order;
use super::redirect::Redirect;
use std::sync::Arc;
use std::time::Instant;
use wattline_linux::namespace::{self, NamespaceError};
use wattline_policy::{CoreSet, IndirectionTable, MAX_CORES};
use wattline_units::Time;
use wattline_xdp::bpf::BpfError;
use wattline_xdp::steer::{Steering, TABLE_ENTRIES, Table};

/// Reason why a virtual card cannot be steered.
#[derive(Debug, thiserror::Error)]
pub enum SteerError {
    /// The sender's end cannot be reached.
    #[error(transparent)]
    Namespace(#[from] NamespaceError),
    /// The classifier cannot be attached.
    #[error("{interface}: {source}")]
    Attach {
        /// The sender's interface.
        interface: String,
        /// Error of the kernel.
        source: BpfError,
    },
    /// No thread can be started.
    #[error("starting a thread: {0}")]
    Thread(std::io::Error),
}

/// Puts a table on the egress of a sender's interface, spread over so many queues; dropping the
/// value removes it. The interface is in the caller's namespace, or in one known to `ip netns`.
///
/// # Errors
/// Fails if there is no such namespace or interface, without CAP_BPF, CAP_NET_ADMIN and (for a
/// namespace) CAP_SYS_ADMIN, or on a kernel without TCX.
pub fn attach(
    namespace: Option<&str>,
    interface: &str,
    queues: usize,
) -> Result<Steering, SteerError> {
    let table = IndirectionTable::new(TABLE_ENTRIES, CoreSet::first(queues.max(1)));
    let attach = || {
        let index = namespace::interface_index(interface)?;
        Steering::attach(index, &as_queues(&table))
            .map_err(|source| SteerError::Attach { interface: interface.to_owned(), source })
    };
    let Some(name) = namespace else { return attach() };
    // In a separate thread, since it stays in that namespace.
    std::thread::scope(|scope| {
        let inside = || {
            namespace::enter_thread(name)?;
            attach()
        };
        let thread = std::thread::Builder::new().spawn_scoped(scope, inside);
        let thread = thread.map_err(SteerError::Thread)?;
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// Tables of all steered ports. Workers serve the queues with their number.
pub struct Steered {
    tables: Vec<(Steering, IndirectionTable)>,
    order: Arc<Order>,
    /// Deferred target of the tables, with weights, and the time of the request, while the last
    /// rewrite is not over.
    wanted: Option<(CoreSet, Vec<u8>, Instant)>,
}

impl Steered {
    /// Creates tables that lead to so many cores.
    pub fn new(steerings: Vec<Steering>, cores: usize) -> Self {
        let table = IndirectionTable::new(TABLE_ENTRIES, CoreSet::first(cores));
        let tables = steerings.into_iter().map(|steering| (steering, table.clone())).collect();
        Self { tables, order: Arc::new(Order::draining(cores)), wanted: None }
    }

    /// Rewrites all tables; the previous rewrite is over.
    fn rewrite(&mut self, active: CoreSet, weights: &[u8]) -> Result<u64, String> {
        let mut held = [0; MAX_CORES];
        let mut next: Vec<IndirectionTable> =
            self.tables.iter().map(|(_, table)| table.clone()).collect();
        let moved: usize =
            next.iter_mut().map(|t| t.spread_weighted(active, weights, &mut held)).sum();
        if moved == 0 {
            return Ok(0);
        }
        if let Some(transit) = self.order.drained() {
            let pairs = self.tables.iter().zip(&next).flat_map(|((_, before), after)| {
                let entries = before.entries().iter().zip(after.entries());
                entries.filter(|(from, to)| from != to)
            });
            transit.begin(pairs.map(|(from, to)| (usize::from(*from), usize::from(*to))));
        }
        let mut wrong = Vec::new();
        for ((steering, table), next) in self.tables.iter_mut().zip(next) {
            match steering.write(&as_queues(&next)) {
                Ok(()) => *table = next,
                Err(error) => wrong.push(error.to_string()),
            }
        }
        if wrong.is_empty() { Ok(moved as u64) } else { Err(wrong.join("; ")) }
    }
}

impl Redirect for Steered {
    fn redirect(&mut self, _: Time, active: CoreSet, weights: &[u8]) -> Result<u64, String> {
        if self.order.drained().is_none_or(|transit| transit.is_over()) {
            self.wanted = None;
            return self.rewrite(active, weights);
        }
        let since = self.wanted.as_ref().map_or_else(Instant::now, |(_, _, since)| *since);
        self.wanted = Some((active, weights.to_vec(), since));
        Ok(0)
    }

    fn resume(&mut self) -> Result<u64, String> {
        if self.wanted.is_none() {
            return Ok(0);
        }
        if self.order.drained().is_some_and(|transit| !transit.is_over()) {
            return Ok(0);
        }
        let Some((active, weights, since)) = self.wanted.take() else { return Ok(0) };
        self.order.deferred(since.elapsed());
        self.rewrite(active, &weights)
    }

    fn order(&self) -> Arc<Order> {
        Arc::clone(&self.order)
    }
}

fn as_queues(table: &IndirectionTable) -> Table {
    let mut queues = [0; TABLE_ENTRIES];
    queues.iter_mut().zip(table.entries()).for_each(|(queue, core)| *queue = *core);
    queues
}
