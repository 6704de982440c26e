//! The table of a sweep as an Arrow IPC file (Feather, version 2) for pandas, Polars, DuckDB and
//! similar programs: columns are typed, and absent values null.

use crate::commands::sweep::columns;
use arrow_array::{ArrayRef, Float64Array, RecordBatch, StringArray, UInt64Array};
use arrow_ipc::writer::FileWriter;
use arrow_schema::{ArrowError, DataType, Field, Schema};
use std::fs::File;
use std::sync::Arc;
use wattline_league::simulated::SweepRow as Row;

/// Writes rows, all in one batch, with the columns of the CSV file.
pub fn write(file: File, rows: &[Row]) -> Result<(), ArrowError> {
    let texts: Vec<_> = rows.iter().map(columns::texts).collect();
    let mut fields = Vec::new();
    let mut arrays: Vec<ArrayRef> = Vec::new();
    for (index, name) in columns::NAMES.into_iter().enumerate() {
        fields.push(Field::new(name, DataType::Utf8, false));
        let column = texts.iter().map(|texts| texts[index].as_str());
        arrays.push(Arc::new(StringArray::from_iter_values(column)));
    }
    let seeds = UInt64Array::from_iter_values(rows.iter().map(|row| row.seed));
    fields.insert(columns::SEED, Field::new("seed", DataType::UInt64, false));
    arrays.insert(columns::SEED, Arc::new(seeds));
    for (name, of) in columns::NUMBERS {
        fields.push(Field::new(name, DataType::Float64, true));
        let column = rows.iter().map(|row| of(&row.report));
        arrays.push(Arc::new(column.collect::<Float64Array>()));
    }
    let schema = Arc::new(Schema::new(fields));
    let batch = RecordBatch::try_new(Arc::clone(&schema), arrays)?;
    let mut writer = FileWriter::try_new_buffered(file, &schema)?;
    writer.write(&batch)?;
    writer.finish()?;
    // Dropping a writer would hide errors.
    writer.flush()
}
