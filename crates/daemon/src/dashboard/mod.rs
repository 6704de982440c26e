//! The dashboard: a page in a browser that shows the present state of a running daemon.
//!
//! A thread asks the daemon once a second for the same statistics that `wattline stats` prints,
//! however many readers there are. Workers are not involved. The page gets the statistics as
//! server-sent events (HTML standard, section 9.2); it cannot change anything, since the server has
//! no request that changes anything ([`crate::http`]).

mod feed;
mod frame;

use crate::http::{self, Answer, Asked, Hosts, Limits};
use feed::Feed;
use frame::Frames;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::{Duration, Instant};
use wattline_linux::privileges;
use wattline_status::Stats;

/// Time between two queries of the daemon.
const EVERY: Duration = Duration::from_secs(1);
/// Time that a page has to take one event.
const PATIENCE: Duration = Duration::from_secs(5);

const HTML: &str = "text/html; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";
const STYLE: &str = "text/css; charset=utf-8";
const PLAIN: &str = "text/plain; charset=utf-8";
const JSON: &str = "application/json";

/// Address at which the dashboard is served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// Address to listen at; port 0 for any free port.
    pub address: SocketAddr,
    /// True if other machines may reach it.
    pub remote: bool,
}

/// Reason why there is no dashboard.
#[derive(Debug, thiserror::Error)]
pub enum DashboardError {
    /// Anybody who reaches the address could read the dashboard.
    #[error(
        "--dashboard {0}: other machines could read it there, without password and unencrypted; \
         use 127.0.0.1 and `ssh -L`, or allow it with --dashboard-remote"
    )]
    Remote(SocketAddr),
    /// The address cannot be listened on.
    #[error("--dashboard {address}: listening there: {source}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The cause.
        source: io::Error,
    },
}

impl Place {
    /// Listens at the address; answers nothing yet. Called before a machine is taken over, so that
    /// a mistake here does no harm.
    ///
    /// # Errors
    /// [`DashboardError::Remote`] if other machines can reach it and that is not allowed; an error
    /// if the address cannot be listened on.
    pub fn open(self) -> Result<Opened, DashboardError> {
        let Self { address, remote } = self;
        if !(address.ip().is_loopback() || remote) {
            return Err(DashboardError::Remote(address));
        }
        let failed = |source| DashboardError::Listen { address, source };
        let listener = http::listen(address).map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        Ok(Opened { listener, address })
    }
}

/// A dashboard that listens but does not answer yet.
#[derive(Debug)]
pub struct Opened {
    listener: TcpListener,
    address: SocketAddr,
}

impl Opened {
    /// Returns the address in use, including the port if 0 was requested.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves the dashboard of the daemon `name`, in threads that end with the process. `stats`
    /// returns its answer to `stats`; `None` while it does not answer.
    ///
    /// # Errors
    /// Fails if the process cannot create another thread.
    pub fn serve(
        self,
        name: &str,
        stats: impl Fn() -> Option<Stats> + Send + 'static,
    ) -> Result<(), DashboardError> {
        let Self { listener, address } = self;
        let failed = |source| DashboardError::Listen { address, source };
        let feed = Arc::new(Feed::default());
        let shown = Arc::clone(&feed);
        let answer = move |asked: &Asked| answer(asked, &shown);
        http::serve("dashboard", listener, Hosts::NotRebound, Limits::default(), answer)
            .map_err(failed)?;
        let mut frames = Frames::new(name);
        let watch = std::thread::Builder::new().name("dashboard".to_owned());
        let look = move || {
            privileges::drop_all_or_warn();
            let mut next = Instant::now();
            loop {
                let frame = frames.next(stats().as_ref());
                feed.push(frame.point, frame.whole.into());
                // After a pause of the machine, missed frames are skipped.
                next = (next + EVERY).max(Instant::now());
                std::thread::sleep(next.saturating_duration_since(Instant::now()));
            }
        };
        watch.spawn(look).map(drop).map_err(failed)
    }
}

fn answer(asked: &Asked, feed: &Arc<Feed>) -> Answer {
    match asked.path.as_str() {
        "/" => Answer::text(HTML, include_str!("assets/page.html")),
        "/page.js" => Answer::text(SCRIPT, include_str!("assets/page.js")),
        "/charts.js" => Answer::text(SCRIPT, include_str!("assets/charts.js")),
        "/page.css" => {
            let own = include_str!("assets/page.css");
            Answer::text(STYLE, format!("{}{own}", wattline_report::page::STYLE))
        }
        "/uplot.js" => Answer::text(SCRIPT, include_str!("assets/uplot.js")),
        "/uplot.css" => Answer::text(STYLE, include_str!("assets/uplot.css")),
        "/uplot-licence.txt" => Answer::text(PLAIN, include_str!("assets/uplot-licence.txt")),
        "/favicon.svg" => Answer::text("image/svg+xml", include_str!("assets/favicon.svg")),
        "/state.json" => match feed.last() {
            Some(state) => Answer::text(JSON, state.to_string()),
            None => Answer::refusal(503, "nothing is known yet"),
        },
        // A request for the head alone does not open the stream.
        "/events" if asked.head_only => Answer::text("text/event-stream", ""),
        "/events" => events(feed),
        _ => Answer::refusal(404, "the dashboard is at /"),
    }
}

fn events(feed: &Arc<Feed>) -> Answer {
    let (history, frames) = feed.join();
    Answer::events(move |client| {
        // The client reconnects after so many milliseconds.
        client.give(PATIENCE);
        client.send(format!("retry: 2000\nevent: history\ndata: {history}\n\n").as_bytes())?;
        // Ends when the feed drops a reader that is too slow.
        for frame in frames {
            client.give(PATIENCE);
            client.send(format!("data: {frame}\n\n").as_bytes())?;
        }
        Ok(())
    })
}

#[cfg(test)]
mod tests;
