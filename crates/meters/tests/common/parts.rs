//! Parts of the loaded power of a machine with these phases (idle, idle+, polling, loaded): whole
//! machine 84, 93, 153 and 151 W, packages 20, 21, 81 and 71 W, memory 4, 4, 4 and 7 W. Cores work
//! a quarter of the time and poll in vain half of it.

/// Parts and their watts.
pub const PARTS: [(&str, f64); 7] = [
    ("package, asleep", 21.0),
    ("package, empty polling", 30.0),
    ("package, useful work", 20.0),
    ("memory", 7.0),
    ("network card, idle", 8.0),
    ("network card, traffic", 5.0),
    ("rest", 60.0),
];
