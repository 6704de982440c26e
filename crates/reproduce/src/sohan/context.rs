//! Verdicts on claims of Sohan et al. that no figure checks.

use crate::step::Context;
use wattline_report::Verdict::{Data, NotTestable};

const TABLE1: &str = "Table I, kept in crates/server/servers/components/sohan-2010-nics.toml";
const TABLE2: &str = "Table II, kept in crates/server/servers/components/sohan-2010-nics.toml and compared \
                      with this row by a test; measuring it again needs the card";
const TABLE4: &str = "Table IV, kept in crates/server/servers/components/sohan-2010-nics.toml and compared \
                      with this row by a test; measuring it again needs the card";
const TABLE5: &str = "Table V, kept in crates/server/servers/components/sohan-2010-nics.toml and compared \
                      with this row by a test; measuring it again needs the card";
const HOST: &str =
    "the paper's machine, kept in crates/server/servers/components/sohan-2010-nics.toml";

pub(crate) const CONTEXT: &[Context] = &[
    ("SO-004", NotTestable, "a limit of the medium's standard; nothing is computed from it"),
    ("SO-005", Data, HOST),
    ("SO-006", Data, HOST),
    ("SO-007", Data, HOST),
    ("SO-008", Data, HOST),
    ("SO-009", Data, HOST),
    ("SO-010", Data, HOST),
    ("SO-011", Data, HOST),
    ("SO-012", NotTestable, "the paper's operating system; a new measurement would be another one"),
    ("SO-013", NotTestable, "a setting of the paper's traffic; a new measurement needs the cards"),
    ("SO-014", NotTestable, "the paper's load generator; a new measurement needs the cards"),
    ("SO-017", NotTestable, "a property of the paper's meters; Wattline's meters state their own"),
    ("SO-020", NotTestable, "how results are rounded; tolerances follow from it"),
    ("SO-021", Data, TABLE1),
    ("SO-022", Data, TABLE1),
    ("SO-023", Data, TABLE1),
    ("SO-024", Data, TABLE1),
    ("SO-025", Data, TABLE1),
    ("SO-026", Data, TABLE1),
    ("SO-027", Data, TABLE1),
    ("SO-028", Data, TABLE1),
    ("SO-029", Data, TABLE1),
    ("SO-030", Data, TABLE1),
    ("SO-031", NotTestable, "a definition; the data follows it (all links connected, no data)"),
    ("SO-032", Data, TABLE2),
    ("SO-033", Data, TABLE2),
    ("SO-034", Data, TABLE2),
    ("SO-036", Data, TABLE2),
    ("SO-037", Data, TABLE2),
    ("SO-038", Data, TABLE2),
    ("SO-040", Data, TABLE2),
    ("SO-041", Data, TABLE2),
    ("SO-042", Data, TABLE2),
    ("SO-044", Data, TABLE2),
    ("SO-045", Data, TABLE2),
    ("SO-046", Data, TABLE2),
    ("SO-048", Data, TABLE2),
    ("SO-049", Data, TABLE2),
    ("SO-050", Data, TABLE2),
    ("SO-052", Data, TABLE2),
    ("SO-053", Data, TABLE2),
    ("SO-054", Data, TABLE2),
    (
        "SO-056",
        NotTestable,
        "the paper's estimate of other servers, from no measurement of its own",
    ),
    ("SO-064", NotTestable, "how the paper measured; a new measurement needs the cards"),
    ("SO-076", NotTestable, "a setting of the paper's traffic; a new measurement needs the cards"),
    ("SO-077", NotTestable, "how the paper counts processors; the data follows it"),
    ("SO-078", Data, TABLE4),
    ("SO-079", Data, TABLE4),
    ("SO-080", Data, TABLE4),
    ("SO-083", Data, TABLE4),
    ("SO-084", Data, TABLE4),
    ("SO-085", Data, TABLE4),
    ("SO-088", Data, TABLE4),
    ("SO-089", Data, TABLE4),
    ("SO-090", Data, TABLE4),
    ("SO-093", Data, TABLE4),
    ("SO-094", Data, TABLE4),
    ("SO-095", Data, TABLE4),
    ("SO-098", Data, TABLE4),
    ("SO-099", Data, TABLE4),
    ("SO-100", Data, TABLE4),
    ("SO-103", Data, TABLE4),
    ("SO-104", Data, TABLE4),
    ("SO-105", Data, TABLE4),
    ("SO-117", Data, TABLE5),
    ("SO-118", Data, TABLE5),
    ("SO-121", Data, TABLE5),
    ("SO-122", Data, TABLE5),
    ("SO-125", Data, TABLE5),
    ("SO-126", Data, TABLE5),
    ("SO-129", Data, TABLE5),
    ("SO-130", Data, TABLE5),
];
