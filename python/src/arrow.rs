//! Tables as Arrow streams, by the C interface that every Arrow library reads (the Arrow
//! PyCapsule interface): no Arrow library is needed here at run time.

use crate::errors::wrong;
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::{
    ArrayRef, BooleanArray, Float64Array, Int64Array, RecordBatch, RecordBatchIterator, StringArray,
};
use arrow_schema::{DataType, Field, Schema};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyCapsule, PyFloat, PyInt, PyString};
use std::sync::Arc;

/// A table as a capsule that holds an `ArrowArrayStream`. Columns are lists of equal length of
/// text, truth values, whole numbers or numbers, with None where there is none.
#[pyfunction]
pub fn arrow_stream<'py>(
    py: Python<'py>,
    columns: Vec<(String, Vec<Bound<'py, PyAny>>)>,
) -> PyResult<Bound<'py, PyCapsule>> {
    let mut fields = Vec::new();
    let mut arrays = Vec::new();
    for (name, values) in columns {
        let (kind, array) = column(&name, &values)?;
        fields.push(Field::new(name, kind, true));
        arrays.push(array);
    }
    let schema = Arc::new(Schema::new(fields));
    let batch = RecordBatch::try_new(schema.clone(), arrays).map_err(wrong)?;
    let batches = RecordBatchIterator::new([Ok(batch)], schema);
    let stream = FFI_ArrowArrayStream::new(Box::new(batches));
    PyCapsule::new_with_value(py, stream, c"arrow_array_stream")
}

fn column(name: &str, values: &[Bound<'_, PyAny>]) -> PyResult<(DataType, ArrayRef)> {
    let present = || values.iter().filter(|value| !value.is_none());
    if present().any(|value| value.is_instance_of::<PyString>()) {
        let texts = each::<String>(name, values)?;
        return Ok((DataType::Utf8, Arc::new(StringArray::from(texts))));
    }
    // In Python a truth value is a whole number, too.
    let truth = |value: &&Bound<'_, PyAny>| value.is_instance_of::<PyBool>();
    if present().next().is_some() && present().all(|value| truth(&value)) {
        let values = each::<bool>(name, values)?;
        return Ok((DataType::Boolean, Arc::new(BooleanArray::from(values))));
    }
    let whole =
        present().next().is_some() && present().all(|value| value.is_instance_of::<PyInt>());
    if whole {
        let numbers = each::<i64>(name, values)?;
        return Ok((DataType::Int64, Arc::new(Int64Array::from(numbers))));
    }
    if let Some(other) = present()
        .find(|value| !value.is_instance_of::<PyInt>() && !value.is_instance_of::<PyFloat>())
    {
        return Err(wrong(format_args!(
            "column {name}: holds {}; allowed: text, numbers and None",
            other.repr()?
        )));
    }
    let numbers = each::<f64>(name, values)?;
    Ok((DataType::Float64, Arc::new(Float64Array::from(numbers))))
}

fn each<'py, T: for<'a> FromPyObject<'a, 'py>>(
    name: &str,
    values: &[Bound<'py, PyAny>],
) -> PyResult<Vec<Option<T>>> {
    let read = |value: &Bound<'py, PyAny>| {
        value.extract::<Option<T>>().map_err(|_| wrong(format_args!("column {name}: mixed types")))
    };
    values.iter().map(read).collect()
}
