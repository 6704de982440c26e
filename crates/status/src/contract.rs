//! Number of the contract, and reading of documents that carry it.

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Number of the contract. It rises when a key is removed, changes its meaning or becomes required;
/// an optional key may be added without a new number.
pub const CONTRACT: u32 = 3;

/// Number of the contract that the document follows. A program reads only documents of its own
/// number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct Contract(pub u32);

impl Default for Contract {
    /// Returns the contract of this program.
    fn default() -> Self {
        Self(CONTRACT)
    }
}

/// An answer of a daemon that carries the number of its contract.
pub trait Document: Serialize + DeserializeOwned + JsonSchema {
    /// Name of the document, as in `wattline schema`.
    const NAME: &'static str;
}

/// Failure to read a document.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum ContractError {
    /// The daemon follows another contract, or none.
    #[error(
        "the daemon's answers have {theirs}, this program expects version {CONTRACT}: {}",
        remedy(*.number)
    )]
    Other {
        /// The daemon's contract in words.
        theirs: String,
        /// Its number; absent if it has none.
        number: Option<u32>,
    },
    /// The answer claims this contract but breaks it.
    #[error(
        "the daemon's answer {document} does not follow version {CONTRACT}: {message}; use the program that \
         the daemon was started from, or restart the daemon"
    )]
    Broken {
        /// Name of the document.
        document: &'static str,
        /// First deviation.
        message: String,
    },
}

fn remedy(number: Option<u32>) -> &'static str {
    if number > Some(CONTRACT) {
        "the daemon is newer; use the program that it was started from"
    } else {
        "the daemon is older; restart it with this program, or use the one that it was started from"
    }
}

/// The only key read before the contract is known.
#[derive(Deserialize)]
struct Head {
    contract: Option<u32>,
}

/// Reads a document.
///
/// # Errors
/// [`ContractError`] if it follows another contract, or breaks its own.
pub fn read<T: Document>(answer: Value) -> Result<T, ContractError> {
    let head = Head::deserialize(&answer).ok().filter(|_| answer.is_object());
    let head = head.and_then(|head| head.contract);
    if head != Some(CONTRACT) {
        let theirs = head.map_or("no version".to_owned(), |number| format!("version {number}"));
        return Err(ContractError::Other { theirs, number: head });
    }
    serde_json::from_value(answer)
        .map_err(|error| ContractError::Broken { document: T::NAME, message: error.to_string() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Empty, Graph, Stats};
    use serde_json::json;

    #[test]
    fn document_of_another_contract_is_refused_with_a_remedy() {
        let newer = read::<Graph>(json!({"contract": CONTRACT + 1})).unwrap_err().to_string();
        assert!(newer.contains(&format!("version {}", CONTRACT + 1)), "{newer}");
        assert!(newer.contains("newer"), "{newer}");
        let strange = [json!({"uptime_seconds": 1.0}), json!(null), json!([1]), json!("x")];
        for older in strange.into_iter().chain([json!({"contract": 0}), json!({"contract": "1"})]) {
            let message = read::<Stats>(older.clone()).unwrap_err().to_string();
            assert!(message.contains("older; restart it"), "{older}: {message}");
        }
    }

    #[test]
    fn document_that_breaks_its_contract_is_named() {
        let error = read::<Graph>(json!({"contract": CONTRACT, "nodes": 3})).unwrap_err();
        assert!(matches!(error, ContractError::Broken { document: "graph", .. }), "{error}");
        assert!(read::<Empty>(json!({"contract": CONTRACT, "added_later": 1})).is_ok());
    }
}
