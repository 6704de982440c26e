//! A bare AF_XDP loop on its own thread: the cost of the AF_XDP sockets alone.

use super::arrangement::INSIDE;
use super::setup::{LEFT_MAC, RIGHT_MAC, SINK_MAC, Setup, addresses, kernel};
use super::threads::{Level, Thread};
use quanta::Clock;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::thread::JoinHandle;
use std::time::Duration;
use wattline_dataplane::frame::BATCH_MAX;
use wattline_dataplane::port::Waiter;
use wattline_dataplane::spin::Spin;
use wattline_linux::namespace::enter_thread;
use wattline_ports::afxdp::{BareLoop, Options, QueueAddress};
use wattline_ports::waiter::PollWaiter;
use wattline_testbed::Error;
use wattline_units::{Span, Time};
use wattline_xdp::{XdpModeChoice, XdpProgram};

/// A worker's longest times of polling and of blocking.
const POLLING: Span = Span::from_micros(20);
const BLOCKED: Duration = Duration::from_millis(100);

/// A running loop; ended when dropped.
pub struct Bare {
    stop: Arc<AtomicBool>,
    thread: Thread,
    running: Option<JoinHandle<()>>,
}

impl Bare {
    /// Starts the loop. It polls always, or blocks as an adaptive worker does.
    pub fn start(setup: &Setup, polls: bool) -> Result<Self, Error> {
        let namespace = setup.router.name().to_owned();
        let interfaces = [setup.left.clone(), setup.right.clone()];
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let (report, reported) = channel();
        let running = std::thread::spawn(move || match prepare(&namespace, &interfaces) {
            Ok((mut bare, mut waiter, _programs)) => {
                if report.send(Ok(Thread::current())).is_ok() {
                    run(&mut bare, &mut waiter, polls, &stopped);
                }
            }
            // The receiver is gone if the starting thread has failed.
            Err(error) => drop(report.send(Err(error))),
        });
        let thread = reported.recv().map_err(|_| kernel("the loop ended at its start"))??;
        Ok(Self { stop, thread, running: Some(running) })
    }

    /// Returns the loop's thread.
    pub fn thread(&self) -> Thread {
        self.thread
    }
}

impl Drop for Bare {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(running) = self.running.take() {
            let _ = running.join();
        }
    }
}

fn prepare(
    namespace: &str,
    interfaces: &[String; 2],
) -> Result<(BareLoop, PollWaiter, Vec<XdpProgram>), Error> {
    enter_thread(namespace)?;
    Thread::current().pin(INSIDE)?;
    Thread::current().precede(Level::Drain)?;
    let addresses = addresses(interfaces.each_ref().map(String::as_str))?;
    let mut macs = [0; 12];
    macs[..6].copy_from_slice(&SINK_MAC);
    macs[6..].copy_from_slice(&RIGHT_MAC);
    let [from, to] = &addresses;
    let bare = BareLoop::open(from, to, &Options::default(), macs).map_err(kernel)?;
    // The XDP programs of a worker's ports, so that the kernel's work is the same.
    let load = |(address, mac): (&QueueAddress, _)| {
        XdpProgram::load_forwarding(address.ifindex, mac, XdpModeChoice::Auto, None).map_err(kernel)
    };
    let macs = [LEFT_MAC, RIGHT_MAC];
    let programs = addresses.iter().zip(macs).map(load).collect::<Result<Vec<_>, _>>()?;
    programs[0].set_socket(0, bare.socket()).map_err(kernel)?;
    let waiter = PollWaiter::new([bare.socket()]).map_err(kernel)?;
    Ok((bare, waiter, programs))
}

fn run(bare: &mut BareLoop, waiter: &mut PollWaiter, polls: bool, stop: &AtomicBool) {
    let clock = Clock::new();
    let start = clock.now();
    let (mut spin, mut last_work, mut blocked) = (Spin::default(), Time::ZERO, false);
    while !stop.load(Ordering::Relaxed) {
        let now = Time::ZERO + Span::from(clock.now().duration_since(start));
        if bare.step(BATCH_MAX) > 0 {
            if std::mem::take(&mut blocked) {
                spin.woken_after(now.since(last_work), POLLING);
            }
            last_work = now;
        } else if !polls && spin.is_over(now.since(last_work), POLLING) && !bare.is_pending() {
            waiter.wait(BLOCKED);
            blocked = true;
        }
    }
}
