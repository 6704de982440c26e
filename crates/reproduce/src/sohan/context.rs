//! Verdicts on claims of Sohan et al. that no figure checks.

use crate::step::Context;
use wattline_report::Basis::Data;
use wattline_report::Verdict::NotTestable;

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
    ("SO-004", None, NotTestable, "a limit of the medium's standard; nothing is computed from it"),
    ("SO-005", Some(Data), NotTestable, HOST),
    ("SO-006", Some(Data), NotTestable, HOST),
    ("SO-007", Some(Data), NotTestable, HOST),
    ("SO-008", Some(Data), NotTestable, HOST),
    ("SO-009", Some(Data), NotTestable, HOST),
    ("SO-010", Some(Data), NotTestable, HOST),
    ("SO-011", Some(Data), NotTestable, HOST),
    (
        "SO-012",
        None,
        NotTestable,
        "the paper's operating system; a new measurement would be another one",
    ),
    (
        "SO-013",
        None,
        NotTestable,
        "a setting of the paper's traffic; a new measurement needs the cards",
    ),
    ("SO-014", None, NotTestable, "the paper's load generator; a new measurement needs the cards"),
    (
        "SO-017",
        None,
        NotTestable,
        "a property of the paper's meters; Wattline's meters state their own",
    ),
    ("SO-020", None, NotTestable, "rounding of results; tolerances follow from it"),
    ("SO-021", Some(Data), NotTestable, TABLE1),
    ("SO-022", Some(Data), NotTestable, TABLE1),
    ("SO-023", Some(Data), NotTestable, TABLE1),
    ("SO-024", Some(Data), NotTestable, TABLE1),
    ("SO-025", Some(Data), NotTestable, TABLE1),
    ("SO-026", Some(Data), NotTestable, TABLE1),
    ("SO-027", Some(Data), NotTestable, TABLE1),
    ("SO-028", Some(Data), NotTestable, TABLE1),
    ("SO-029", Some(Data), NotTestable, TABLE1),
    ("SO-030", Some(Data), NotTestable, TABLE1),
    (
        "SO-031",
        None,
        NotTestable,
        "a definition; the data follows it (all links connected, no data)",
    ),
    ("SO-032", Some(Data), NotTestable, TABLE2),
    ("SO-033", Some(Data), NotTestable, TABLE2),
    ("SO-034", Some(Data), NotTestable, TABLE2),
    ("SO-036", Some(Data), NotTestable, TABLE2),
    ("SO-037", Some(Data), NotTestable, TABLE2),
    ("SO-038", Some(Data), NotTestable, TABLE2),
    ("SO-040", Some(Data), NotTestable, TABLE2),
    ("SO-041", Some(Data), NotTestable, TABLE2),
    ("SO-042", Some(Data), NotTestable, TABLE2),
    ("SO-044", Some(Data), NotTestable, TABLE2),
    ("SO-045", Some(Data), NotTestable, TABLE2),
    ("SO-046", Some(Data), NotTestable, TABLE2),
    ("SO-048", Some(Data), NotTestable, TABLE2),
    ("SO-049", Some(Data), NotTestable, TABLE2),
    ("SO-050", Some(Data), NotTestable, TABLE2),
    ("SO-052", Some(Data), NotTestable, TABLE2),
    ("SO-053", Some(Data), NotTestable, TABLE2),
    ("SO-054", Some(Data), NotTestable, TABLE2),
    (
        "SO-056",
        None,
        NotTestable,
        "the paper's estimate of other servers, from no measurement of its own",
    ),
    (
        "SO-064",
        None,
        NotTestable,
        "the paper's measuring method; a new measurement needs the cards",
    ),
    (
        "SO-076",
        None,
        NotTestable,
        "a setting of the paper's traffic; a new measurement needs the cards",
    ),
    ("SO-077", None, NotTestable, "the paper's count of processors; the data follows it"),
    ("SO-078", Some(Data), NotTestable, TABLE4),
    ("SO-079", Some(Data), NotTestable, TABLE4),
    ("SO-080", Some(Data), NotTestable, TABLE4),
    ("SO-083", Some(Data), NotTestable, TABLE4),
    ("SO-084", Some(Data), NotTestable, TABLE4),
    ("SO-085", Some(Data), NotTestable, TABLE4),
    ("SO-088", Some(Data), NotTestable, TABLE4),
    ("SO-089", Some(Data), NotTestable, TABLE4),
    ("SO-090", Some(Data), NotTestable, TABLE4),
    ("SO-093", Some(Data), NotTestable, TABLE4),
    ("SO-094", Some(Data), NotTestable, TABLE4),
    ("SO-095", Some(Data), NotTestable, TABLE4),
    ("SO-098", Some(Data), NotTestable, TABLE4),
    ("SO-099", Some(Data), NotTestable, TABLE4),
    ("SO-100", Some(Data), NotTestable, TABLE4),
    ("SO-103", Some(Data), NotTestable, TABLE4),
    ("SO-104", Some(Data), NotTestable, TABLE4),
    ("SO-105", Some(Data), NotTestable, TABLE4),
    ("SO-117", Some(Data), NotTestable, TABLE5),
    ("SO-118", Some(Data), NotTestable, TABLE5),
    ("SO-121", Some(Data), NotTestable, TABLE5),
    ("SO-122", Some(Data), NotTestable, TABLE5),
    ("SO-125", Some(Data), NotTestable, TABLE5),
    ("SO-126", Some(Data), NotTestable, TABLE5),
    ("SO-129", Some(Data), NotTestable, TABLE5),
    ("SO-130", Some(Data), NotTestable, TABLE5),
];
