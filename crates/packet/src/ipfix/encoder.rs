//! Encoding of messages: headers, sets, sequence numbers.

use super::elements::{of, record_length};
use super::options::Layout;
use super::{FlowRecord, Sampler, Status, TEMPLATE_IPV4, TEMPLATE_IPV6, Version};

/// Longest message that [`Encoder::new`] allows, in bytes; it fits into the length field.
pub const MOST_BYTES: usize = 65_000;
/// Smallest limit in bytes, with room for the templates.
const FEWEST_BYTES: usize = 512;

/// Encodes the messages of one session with one collector.
pub struct Encoder {
    version: Version,
    domain: u32,
    boot_millis: u64,
    longest: usize,
    sequence: u32,
    message: Vec<u8>,
    /// Offset of the open set.
    set: usize,
    /// Records in the message, templates included.
    count: u16,
}

impl Encoder {
    /// Makes an encoder for an observation domain (a source id in version 9) of an exporter that
    /// started at `boot_millis` of UNIX time, before any flow. Messages have at most `longest`
    /// bytes, clamped to 512..=[`MOST_BYTES`].
    pub fn new(version: Version, domain: u32, boot_millis: u64, longest: usize) -> Self {
        let longest = longest.clamp(FEWEST_BYTES, MOST_BYTES);
        let message = Vec::with_capacity(longest);
        Self { version, domain, boot_millis, longest, sequence: 0, message, set: 0, count: 0 }
    }

    /// Restarts the sequence numbers for a new transport session (RFC 7011 section 3.1).
    pub fn restart(&mut self) {
        self.sequence = 0;
    }

    /// Returns a message with all templates and options. Its status does not count the message
    /// itself.
    pub fn templates(
        &mut self,
        now_millis: u64,
        status: &Status,
        sampler: Option<Sampler>,
    ) -> &[u8] {
        let version = self.version;
        self.begin();
        let (template_set, _) = self.set_ids();
        self.open(template_set);
        for (id, ipv6) in [(TEMPLATE_IPV4, false), (TEMPLATE_IPV6, true)] {
            let fields = of(version);
            self.words(&[id, fields.len() as u16]);
            for field in fields {
                let (number, length) = field.wire(version, ipv6);
                self.words(&[number, length]);
            }
            self.count += 1;
        }
        self.close();
        self.options_template(Status::layout(version));
        if let Some(sampler) = sampler {
            self.options_template(sampler.layout(version));
        }
        self.end_with_options(now_millis, status, sampler)
    }

    /// Returns a message with options only: over TCP, templates are sent once (RFC 7011 section
    /// 8.1).
    pub fn options(&mut self, now_millis: u64, status: &Status, sampler: Option<Sampler>) -> &[u8] {
        self.begin();
        self.end_with_options(now_millis, status, sampler)
    }

    fn end_with_options(
        &mut self,
        now_millis: u64,
        status: &Status,
        sampler: Option<Sampler>,
    ) -> &[u8] {
        let (version, domain) = (self.version, self.domain);
        let mut data = 1;
        self.open(Status::layout(version).id);
        status.write(version, domain, &mut self.message);
        self.close();
        if let Some(sampler) = sampler {
            self.open(sampler.layout(version).id);
            sampler.write(version, domain, &mut self.message);
            self.close();
            data += 1;
        }
        self.count += data;
        self.end(now_millis, u32::from(data))
    }

    /// Returns a message with as many of the records as fit, in order; returns their number and the
    /// message. At least one record fits, so repeated calls make progress.
    pub fn records(&mut self, now_millis: u64, records: &[FlowRecord]) -> (usize, &[u8]) {
        let (version, boot) = (self.version, self.boot_millis);
        self.begin();
        let mut family = None;
        let mut taken = 0;
        for record in records {
            let ipv6 = record.is_ipv6();
            let header = if family == Some(ipv6) { 0 } else { 4 };
            // Includes the padding of the previous set and of this one.
            let needed = header + record_length(version, ipv6) + 6;
            if taken > 0 && self.message.len() + needed > self.longest {
                break;
            }
            if family != Some(ipv6) {
                if family.is_some() {
                    self.close();
                }
                self.open(if ipv6 { TEMPLATE_IPV6 } else { TEMPLATE_IPV4 });
                family = Some(ipv6);
            }
            for element in of(version) {
                element.write(record, boot, &mut self.message);
            }
            taken += 1;
        }
        if family.is_some() {
            self.close();
        }
        self.count = taken as u16;
        (taken, self.end(now_millis, taken as u32))
    }

    /// Ids of template sets and options template sets.
    fn set_ids(&self) -> (u16, u16) {
        match self.version {
            Version::Ipfix => (2, 3),
            Version::Netflow9 => (0, 1),
        }
    }

    fn options_template(&mut self, layout: &Layout) {
        let (_, set) = self.set_ids();
        self.open(set);
        let fields = layout.fields;
        match self.version {
            // Number of all fields, then number of scope fields.
            Version::Ipfix => self.words(&[layout.id, fields.len() as u16 + 1, 1]),
            // Bytes of scope, and bytes of options, in this template.
            Version::Netflow9 => self.words(&[layout.id, 4, fields.len() as u16 * 4]),
        }
        self.words(&[layout.scope.0, layout.scope.1]);
        for (number, length) in fields {
            self.words(&[*number, *length]);
        }
        self.count += 1;
        self.close();
    }

    fn words(&mut self, words: &[u16]) {
        self.message.extend(words.iter().flat_map(|word| word.to_be_bytes()));
    }

    fn begin(&mut self) {
        self.message.clear();
        let header = match self.version {
            Version::Ipfix => 16,
            Version::Netflow9 => 20,
        };
        self.message.resize(header, 0);
        self.count = 0;
    }

    fn open(&mut self, id: u16) {
        self.set = self.message.len();
        self.words(&[id, 0]);
    }

    /// Fills in the length of the open set, after padding it to four bytes (RFC 3954 section 5.2).
    fn close(&mut self) {
        let length = (self.message.len() - self.set).next_multiple_of(4);
        self.message.resize(self.set + length, 0);
        self.put(self.set + 2, &(length as u16).to_be_bytes());
    }

    fn put(&mut self, at: usize, bytes: &[u8]) {
        if let Some(place) = self.message.get_mut(at..at + bytes.len()) {
            place.copy_from_slice(bytes);
        }
    }

    /// Fills in the header of a message with `data` data records.
    fn end(&mut self, now_millis: u64, data: u32) -> &[u8] {
        let sequence = self.sequence;
        match self.version {
            Version::Ipfix => {
                self.put(0, &10_u16.to_be_bytes());
                self.put(2, &(self.message.len() as u16).to_be_bytes());
                self.put(4, &((now_millis / 1000) as u32).to_be_bytes());
                self.put(8, &sequence.to_be_bytes());
                self.put(12, &self.domain.to_be_bytes());
                // IPFIX counts data records, including those of options.
                self.sequence = sequence.wrapping_add(data);
            }
            Version::Netflow9 => {
                // Rounded up to a full second: a collector then computes the exact boot time, and
                // no flow is later than the message.
                let seconds = now_millis.div_ceil(1000);
                let uptime = (seconds * 1000).saturating_sub(self.boot_millis);
                self.put(0, &9_u16.to_be_bytes());
                self.put(2, &self.count.to_be_bytes());
                self.put(4, &(uptime as u32).to_be_bytes());
                self.put(8, &(seconds as u32).to_be_bytes());
                self.put(12, &sequence.to_be_bytes());
                self.put(16, &self.domain.to_be_bytes());
                // Version 9 counts messages.
                self.sequence = sequence.wrapping_add(1);
            }
        }
        &self.message
    }
}
