//! `re`, `re-maxp`, `re-modp`: redundancy elimination, the encoder, with SAMPLEBYTE and others;
//! `re-link`: encoder and decoder one after the other, so that each packet leaves as it came.
//!
//! The payloads of the flows are cut from one mebibyte of random bytes at random places, so that
//! nearly all of a payload has been seen before, in pieces: the work that the encoder is for.

use super::{Application, Args, Error};
use serde_json::{Map, Value, json};
use std::sync::Arc;
use wattline_dataplane::apps::redundancy::select::Selection;
use wattline_dataplane::apps::redundancy::{
    DecodeCounters, DecodeNode, DecodeSection, Decoder, DecoderCache, EncodeCounters, EncodeNode,
    EncodeSection, EncodeSettings, Encoder, EncoderCache, Family, Rules,
};
use wattline_dataplane::feature::{Feature, Place};
use wattline_packet::redundancy::Key;

const CACHE: usize = 64 << 20;
const PROTOCOL: u8 = 253;

type Made = Result<Option<Box<dyn Application>>, Error>;

pub(super) fn make(_: &Args) -> Made {
    Redundancy::make(Selection::SampleByte, false)
}

pub(super) fn make_modp(_: &Args) -> Made {
    Redundancy::make(Selection::Modp, false)
}

pub(super) fn make_maxp(_: &Args) -> Made {
    Redundancy::make(Selection::Maxp, false)
}

pub(super) fn make_link(_: &Args) -> Made {
    Redundancy::make(Selection::SampleByte, true)
}

struct Redundancy {
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
    fn make(selection: Selection, with_decoder: bool) -> Made {
        let settings = EncodeSettings {
            cache_bytes: CACHE,
            selection,
            period: 32,
            stream: 0,
            key: Key::from_secret(""),
            bypass_entropy: true,
        };
        let (encoded, decoded) = (Arc::default(), Arc::default());
        Ok(Some(Box::new(Self { settings, with_decoder, encoded, decoded })))
    }
}

fn feature(node: Box<dyn wattline_dataplane::graph::Node>, name: &'static str) -> Feature {
    Feature { place: Place::Routed, ipv4: Some(name), ipv6: None, nodes: vec![node] }
}

impl Application for Redundancy {
    fn features(&mut self) -> Vec<Feature> {
        let cache = Arc::new(EncoderCache::new(&self.settings));
        cache.decoder_is_alive(u64::MAX, 0, true);
        let encoder = Encoder::new(&self.settings, cache);
        let section = EncodeSection { rules: rules(), encoder, counters: self.encoded.clone() };
        let node = Box::new(EncodeNode::new(Family::V4, vec![section]));
        let mut features = vec![feature(node, EncodeNode::name_of(Family::V4))];
        if self.with_decoder {
            let cache = Arc::new(DecoderCache::new(CACHE, 0));
            let decoder = Decoder::new(0, self.settings.key, cache);
            let section = DecodeSection { rules: rules(), decoder, counters: self.decoded.clone() };
            let node = Box::new(DecodeNode::new(Family::V4, vec![section]));
            features.push(feature(node, DecodeNode::name_of(Family::V4)));
        }
        features
    }

    fn counted(&self) -> Value {
        let object = |list: Vec<(&'static str, u64)>| {
            let list = list.into_iter().filter(|(_, count)| *count > 0);
            list.map(|(name, count)| (name.to_owned(), json!(count))).collect::<Map<_, _>>()
        };
        let mut all = json!({ "encoder": object(self.encoded.list()) });
        if self.with_decoder {
            all["decoder"] = object(self.decoded.list()).into();
        }
        all
    }
}
