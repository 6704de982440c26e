//! `re`, `re-maxp`, `re-modp`: the encoder of redundancy elimination with SAMPLEBYTE and with the
//! other selections. `re-link`: encoder and decoder in a row, which restore each packet.
//!
//! Payloads are cut at random positions from one mebibyte of random bytes. Nearly every part of a
//! payload has therefore been seen before, in pieces, as the encoder expects.

use super::application::Application;
use super::args::Args;
use super::report::Cost;
use crate::memory_router::Error;
use serde_json::{Value, json};
use std::sync::Arc;
use wattline_dataplane::counters::Counter;
use wattline_dataplane::feature::{Feature, Place};
use wattline_dataplane::graph::Node;
use wattline_packet::Family;
use wattline_packet::redundancy::Key;
use wattline_redundancy::nodes::select::Selection;
use wattline_redundancy::nodes::{
    DecodeCounters, DecodeNode, DecodeSection, Decoder, DecoderCache, EncodeCounters, EncodeNode,
    EncodeSection, EncodeSettings, Encoder, EncoderCache, Rules,
};

const CACHE: usize = 64 << 20;
const PROTOCOL: u8 = 253;

type MakeResult = Result<Vec<Box<dyn Application>>, Error>;

pub(super) fn make(_: &Args) -> MakeResult {
    Redundancy::make("re", Selection::SampleByte, false)
}

pub(super) fn make_modp(_: &Args) -> MakeResult {
    Redundancy::make("re-modp", Selection::Modp, false)
}

pub(super) fn make_maxp(_: &Args) -> MakeResult {
    Redundancy::make("re-maxp", Selection::Maxp, false)
}

pub(super) fn make_link(_: &Args) -> MakeResult {
    Redundancy::make("re-link", Selection::SampleByte, true)
}

struct Redundancy {
    name: &'static str,
    settings: EncodeSettings,
    with_decoder: bool,
    encoded: Arc<EncodeCounters>,
    decoded: Arc<DecodeCounters>,
}

fn rules() -> Rules {
    Rules {
        port: None,
        prefixes: Vec::new(),
        except: Vec::new(),
        protocol: PROTOCOL,
        bypass_ports: Vec::new(),
    }
}

impl Redundancy {
    fn make(name: &'static str, selection: Selection, with_decoder: bool) -> MakeResult {
        let settings = EncodeSettings {
            cache_bytes: CACHE,
            selection,
            period: 32,
            stream: 0,
            key: Key::from_secret(""),
            bypass_entropy: true,
        };
        let (encoded, decoded) = (Arc::default(), Arc::default());
        Ok(vec![Box::new(Self { name, settings, with_decoder, encoded, decoded })])
    }
}

fn feature(family: Family, node: Box<dyn Node>, name: &'static str) -> Feature {
    let of = |wanted: Family| (family == wanted).then_some(name);
    let (ipv4, ipv6) = (of(Family::V4), of(Family::V6));
    Feature { place: Place::Routed, ipv4, ipv6, nodes: vec![node] }
}

impl Application for Redundancy {
    fn name(&self) -> &'static str {
        self.name
    }

    fn features(&mut self) -> Vec<Feature> {
        let (mut encoding, mut decoding) = (Vec::new(), Vec::new());
        let near = Arc::new(EncoderCache::new(&self.settings));
        near.decoder_is_alive(u64::MAX, 0, true);
        let far = self.with_decoder.then(|| Arc::new(DecoderCache::new(CACHE, 0)));
        for family in Family::ALL {
            let encoder = Encoder::new(&self.settings, near.clone());
            let section = EncodeSection { rules: rules(), encoder, counters: self.encoded.clone() };
            let node = Box::new(EncodeNode::new(family, vec![section]));
            encoding.push(feature(family, node, EncodeNode::name_of(family)));
            if let Some(cache) = &far {
                let decoder = Decoder::new(0, self.settings.key, cache.clone());
                let counters = self.decoded.clone();
                let section = DecodeSection { rules: rules(), decoder, counters };
                let node = Box::new(DecodeNode::new(family, vec![section]));
                decoding.push(feature(family, node, DecodeNode::name_of(family)));
            }
        }
        encoding.append(&mut decoding);
        encoding
    }

    fn counted(&self, _: &Cost) -> Value {
        let mut all = json!({ "encoder": self.encoded.map(Counter::get) });
        if self.with_decoder {
            all["decoder"] = json!(self.decoded.map(Counter::get));
        }
        let counts = all.as_object_mut().into_iter().flat_map(|all| all.values_mut());
        counts.filter_map(Value::as_object_mut).for_each(|it| it.retain(|_, count| *count != 0));
        all
    }
}
