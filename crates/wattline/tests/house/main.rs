//! Rules of the house: under which licences others are used.

mod licences;
