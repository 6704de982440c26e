//! The application's side of the receive path: reading from sockets, copy and release.

use super::cache::LINE_BYTES;
use super::data::{Data, Phase};
use super::layout::{
    FRAME_LINES, PAYLOAD_AT, PAYLOAD_BYTES, SKB_LINES, payload, shared_info, skb_line,
};
use super::pool::Packet;
use super::prefetch::PAGE_LINES;
use super::run::Run;

impl Run<'_> {
    /// Takes an SKB and a buffer.
    pub(super) fn take(&mut self, core: usize) -> Packet {
        self.pool.take(core, &mut self.machine)
    }

    /// Reads whole I/Os as long as more than the standing window would remain.
    pub(super) fn application(&mut self, connection: usize, core: usize) {
        loop {
            let socket = &self.connections[connection];
            let there = socket.waiting.len() as u32 * PAYLOAD_BYTES;
            if there < self.path.io_bytes + self.path.window_bytes + socket.begun {
                return;
            }
            self.find_place(connection, core);
            let mut read = 0;
            while read < self.path.io_bytes {
                let socket = &self.connections[connection];
                let Some(&(packet, last)) = socket.waiting.front() else { return };
                let begun = socket.begun;
                let part = (PAYLOAD_BYTES - begun).min(self.path.io_bytes - read);
                self.copy(core, connection, packet, begun, read, part);
                read += part;
                let socket = &mut self.connections[connection];
                socket.begun = begun + part;
                if socket.begun == PAYLOAD_BYTES {
                    socket.waiting.pop_front();
                    socket.begun = 0;
                    socket.copied.push(packet);
                    self.invalidate(packet);
                    if last {
                        self.release_chain(connection, core);
                    }
                }
            }
        }
    }

    /// Each call walks the chain from its head to the end of the previous call.
    fn find_place(&mut self, connection: usize, core: usize) {
        for at in 0..self.connections[connection].copied.len() {
            let skb = self.connections[connection].copied[at].skb;
            for line in [2, 0] {
                self.machine.touch(core, Phase::Protocol, skb_line(skb, line), false);
            }
        }
    }

    /// Copies `part` bytes from offset `from` of the payload to offset `to` of the application's
    /// buffer.
    fn copy(
        &mut self,
        core: usize,
        connection: usize,
        packet: Packet,
        from: u32,
        to: u32,
        part: u32,
    ) {
        if !self.machine.awake {
            return;
        }
        // The length, the pointer to the data, and the check for fragments.
        for line in [2, 3] {
            self.machine.touch(core, Phase::Protocol, skb_line(packet.skb, line), false);
        }
        self.machine.touch(core, Phase::Protocol, shared_info(packet.buffer), false);
        let user_lines = self.path.io_bytes.div_ceil(LINE_BYTES).next_multiple_of(PAGE_LINES);
        let user = connection as u32 * user_lines;
        let (first, last) = (PAYLOAD_AT + from, PAYLOAD_AT + from + part - 1);
        let (user_first, user_last) = (to, to + part - 1);
        let mut sources = first / LINE_BYTES..=last / LINE_BYTES;
        let mut targets = user_first / LINE_BYTES..=user_last / LINE_BYTES;
        // Loads and stores alternate.
        loop {
            let (source, target) = (sources.next(), targets.next());
            if source.is_none() && target.is_none() {
                return;
            }
            if let Some(line) = source.map(|line| payload(packet.buffer, line)) {
                match self.path.copy_engine {
                    true => self.machine.engine(line, false),
                    false => self.machine.read_through(core, Phase::Copy, line),
                }
            }
            if let Some(line) = target.map(|line| Data::User.line(user + line)) {
                match self.path.copy_engine {
                    true => self.machine.engine(line, true),
                    false => self.machine.touch(core, Phase::Copy, line, true),
                }
            }
        }
    }

    fn invalidate(&mut self, packet: Packet) {
        if self.path.invalidate {
            for line in 0..FRAME_LINES {
                self.machine.discard(payload(packet.buffer, line));
            }
        }
    }

    /// Releases a copied chain, its first packet last.
    fn release_chain(&mut self, connection: usize, core: usize) {
        let length = self.connections[connection].copied.len();
        for at in (1..length).chain([0]) {
            let packet = self.connections[connection].copied[at];
            // The reference count, the route, the clone flag, the successor; then the fragments.
            for line in (0..SKB_LINES).rev() {
                self.machine.touch(core, Phase::Release, skb_line(packet.skb, line), false);
            }
            self.machine.touch(core, Phase::Release, shared_info(packet.buffer), false);
            self.pool.give(core, packet, self.path.page_struct, &mut self.machine);
        }
        self.connections[connection].copied.clear();
    }
}
