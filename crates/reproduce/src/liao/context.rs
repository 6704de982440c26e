//! Verdicts on claims of Liao and Bhuyan that no figure checks.

use crate::step::Context;
use wattline_report::Basis::Data;
use wattline_report::Verdict::{FigureLost, NotTestable, PaperContradictsItself};

const POWER: &str = "kept in crates/server/servers/components/liao-2011-host.toml, an end of the \
                     interpolation over the I/O size; measuring it again needs the machine";

pub(crate) const CONTEXT: &[Context] = &[
    ("LI-003", None, NotTestable, "a fact about other machines of 2011"),
    (
        "LI-012",
        Some(Data),
        NotTestable,
        "kept in crates/server/servers/components/liao-2011-host.toml; measuring it again needs the card",
    ),
    (
        "LI-013",
        Some(Data),
        NotTestable,
        "kept in crates/server/servers/components/liao-2011-host.toml; measuring it again needs the card",
    ),
    ("LI-015", Some(Data), NotTestable, "a parameter of the receive path: DESCRIPTOR_BYTES"),
    (
        "LI-016",
        Some(Data),
        NotTestable,
        "a parameter of the receive path: PAYLOAD_BYTES is what is left of it",
    ),
    (
        "LI-017",
        Some(Data),
        NotTestable,
        "a parameter of the receive path: four lines, at a distance of 256 B",
    ),
    ("LI-018", Some(Data), NotTestable, "a parameter of the receive path: 32 lines"),
    (
        "LI-020",
        None,
        PaperContradictsItself,
        "the paper's machine as printed; a Xeon 5335 has 2.0 GHz, not 2.66",
    ),
    ("LI-021", None, NotTestable, "the paper's machine; its 4 MB are the model's last-level cache"),
    (
        "LI-022",
        None,
        PaperContradictsItself,
        "the card is called 82597 here and Oplin, which is the 82598, in section 4.1",
    ),
    (
        "LI-023",
        None,
        NotTestable,
        "the paper's software, kept in crates/server/servers/components/liao-2011-host.toml",
    ),
    ("LI-024", None, NotTestable, "the paper's load; the model has its eight connections"),
    (
        "LI-027",
        None,
        NotTestable,
        "a profile of a running kernel, which `wattline-lab bench breakdown` takes and groups; a reproduction \
         measures nothing",
    ),
    (
        "LI-028",
        None,
        FigureLost,
        "the copy's share over the I/O size was in Figure 3; the text has it for large I/O alone, and for 64 bytes \
         the driver's and the release's",
    ),
    ("LI-029", Some(Data), NotTestable, "input of the cost model, on which other checks rest"),
    ("LI-030", Some(Data), NotTestable, "input of the cost model, on which other checks rest"),
    ("LI-034", None, NotTestable, "the paper's measuring method; needs performance counters"),
    ("LI-035", None, NotTestable, "the cost of the paper's own probe on its machine"),
    ("LI-036", None, NotTestable, "a setting: the model's I/O size"),
    (
        "LI-037",
        Some(Data),
        NotTestable,
        "input of the cost model; measuring it again needs the card",
    ),
    ("LI-046", None, NotTestable, "needs counts of instructions; the model has caches only"),
    ("LI-050", Some(Data), NotTestable, "input of the cost model; needs counts of instructions"),
    ("LI-053", Some(Data), NotTestable, "a parameter of the receive path: two lines"),
    ("LI-055", None, NotTestable, "a description; the model's allocator has both phases"),
    (
        "LI-063",
        None,
        PaperContradictsItself,
        "the paper's machine as printed; Xeon 5500 parts with 8 MB of cache are quad-core",
    ),
    ("LI-064", None, NotTestable, "the paper's machine"),
    ("LI-065", None, NotTestable, "the paper's meter; Wattline's meters state their own"),
    ("LI-067", None, NotTestable, "a setting of the paper's measurement"),
    ("LI-069", None, NotTestable, "the paper's recorder"),
    ("LI-070", None, NotTestable, "the paper's recorder"),
    (
        "LI-071",
        Some(Data),
        NotTestable,
        "kept in crates/server/servers/components/liao-2011-host.toml; measuring it again needs the card",
    ),
    ("LI-073", Some(Data), NotTestable, POWER),
    ("LI-074", Some(Data), NotTestable, POWER),
    ("LI-075", Some(Data), NotTestable, POWER),
    ("LI-078", Some(Data), NotTestable, POWER),
    ("LI-079", Some(Data), NotTestable, POWER),
    ("LI-082", Some(Data), NotTestable, POWER),
    ("LI-084", Some(Data), NotTestable, POWER),
    ("LI-085", Some(Data), NotTestable, POWER),
    ("LI-086", Some(Data), NotTestable, POWER),
    ("LI-088", Some(Data), NotTestable, POWER),
    ("LI-089", Some(Data), NotTestable, POWER),
    ("LI-090", Some(Data), NotTestable, POWER),
    ("LI-091", Some(Data), NotTestable, POWER),
];
