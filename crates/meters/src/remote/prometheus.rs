//! Watts from a Prometheus server, by a query, or from the page of an exporter, by a line.

use super::client::{Client, Failure};
use serde::Deserialize;
use std::time::{SystemTime, UNIX_EPOCH};

/// Path of a server's queries.
const API: &str = "/api/v1/query";
/// Largest age in seconds of a page's sample with a time.
const OLDEST: f64 = 60.0;

/// A query to a server, or a line of a page.
#[derive(Debug, Clone, PartialEq)]
pub enum Query {
    /// The address that answers queries, and the query.
    Server(String, String),
    /// The address of a page, and the line's name and labels.
    Page(String, Series),
}

impl Query {
    /// Parses `URL#QUERY`. An address without a path is a server; otherwise the path is of its
    /// queries or of a page.
    ///
    /// # Errors
    /// A text.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (url, query) = text.split_once('#').filter(|(_, query)| !query.trim().is_empty()).ok_or(
            "expected prometheus:URL#QUERY, such as prometheus:http://127.0.0.1:9090#sum(pdu_watts)",
        )?;
        let rest = url.split_once("://").map_or("", |(_, rest)| rest);
        let path = rest.find(['/', '?']).map_or("", |at| &rest[at..]);
        if path.is_empty() || path == "/" {
            return Ok(Self::Server(url.trim_end_matches('/').to_owned() + API, query.to_owned()));
        }
        if path.ends_with(API) {
            return Ok(Self::Server(url.to_owned(), query.to_owned()));
        }
        let series = Series::parse(query.trim()).filter(|(_, rest)| rest.is_empty());
        let (series, _) = series.ok_or_else(|| {
            format!(
                "{query:?} is no line of a page; expected NAME or NAME{{LABEL=\"VALUE\",...}}. Queries \
                 go to a server's {API}"
            )
        })?;
        Ok(Self::Page(url.to_owned(), series))
    }

    /// Queries the watts.
    pub fn ask(&self, client: &Client, secret: Option<(&str, &str)>) -> Result<f64, Failure> {
        match self {
            Self::Server(url, query) => Ok(result(&client.get(url, Some(query), secret)?)?),
            Self::Page(url, series) => {
                let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
                Ok(series.find(&client.get(url, None, secret)?, now.as_secs_f64())?)
            }
        }
    }
}

#[derive(Deserialize)]
struct Answer {
    status: String,
    error: Option<String>,
    data: Option<Data>,
}

#[derive(Deserialize)]
struct Data {
    #[serde(rename = "resultType")]
    kind: String,
    result: serde_json::Value,
}

#[derive(Deserialize)]
struct Sample {
    value: (f64, String),
}

/// Returns the one value of an answer.
fn result(text: &str) -> Result<f64, String> {
    let answer: Answer =
        serde_json::from_str(text).map_err(|error| format!("no answer of Prometheus: {error}"))?;
    if answer.status != "success" {
        return Err(format!("the query failed: {}", answer.error.unwrap_or_default()));
    }
    let data = answer.data.ok_or("the answer has no data")?;
    let odd = |error: serde_json::Error| format!("a {} of another form: {error}", data.kind);
    let (_, value) = match &*data.kind {
        "scalar" => serde_json::from_value(data.result).map_err(odd)?,
        "vector" => {
            let mut series: Vec<Sample> = serde_json::from_value(data.result).map_err(odd)?;
            let count = series.len();
            match series.pop() {
                Some(sample) if count == 1 => sample.value,
                Some(_) => {
                    return Err(format!(
                        "the query gives {count} series, expected one: sum() adds them"
                    ));
                }
                None => {
                    return Err("the query has no value now: no such series, or it is stale".into());
                }
            }
        }
        kind => {
            return Err(format!(
                "the query gives a {kind}, expected an instant vector or a scalar"
            ));
        }
    };
    number(&value)
}

fn number(text: &str) -> Result<f64, String> {
    let value: Option<f64> = text.parse().ok();
    value
        .filter(|value| value.is_finite())
        .ok_or_else(|| format!("the value is {text:?}, no number"))
}

/// Name and labels of a line.
#[derive(Debug, Clone, PartialEq)]
pub struct Series {
    name: String,
    labels: Vec<(String, String)>,
}

impl Series {
    /// Parses `NAME` or `NAME{LABEL="VALUE",...}`, and returns the rest of the text.
    fn parse(text: &str) -> Option<(Self, &str)> {
        let word = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == ':';
        let end = text.find(|c| !word(c)).unwrap_or(text.len());
        let (name, mut rest) = text.split_at(end);
        let mut labels = Vec::new();
        if let Some(inner) = rest.strip_prefix('{') {
            rest = inner.trim_start();
            while !rest.starts_with('}') {
                let (label, after) = rest.split_once('=')?;
                let mut value = String::new();
                let mut chars = after.trim_start().strip_prefix('"')?.chars();
                loop {
                    match chars.next()? {
                        '"' => break,
                        '\\' => value.push(match chars.next()? {
                            'n' => '\n',
                            other => other,
                        }),
                        other => value.push(other),
                    }
                }
                labels.push((label.trim().to_owned(), value));
                rest = chars.as_str().trim_start();
                rest = rest.strip_prefix(',').unwrap_or(rest).trim_start();
            }
            rest = &rest[1..];
        }
        (!name.is_empty()).then(|| (Self { name: name.to_owned(), labels }, rest))
    }

    /// Returns the value of the one line with this name and these labels.
    fn find(&self, page: &str, now: f64) -> Result<f64, String> {
        let fits = |line: &str| {
            let (series, rest) = Self::parse(line)?;
            let has = |label| series.labels.contains(label);
            (series.name == self.name && self.labels.iter().all(has)).then(|| rest.to_owned())
        };
        let found: Vec<String> = page.lines().filter_map(fits).collect();
        let [rest] = &found[..] else {
            return Err(format!(
                "{} lines of the page have this name and these labels, expected one",
                found.len()
            ));
        };
        let mut fields = rest.split_whitespace();
        let value = number(fields.next().unwrap_or_default())?;
        if let Some(time) = fields.next() {
            let age = now - number(time)? / 1e3;
            if age.abs() > OLDEST {
                return Err(format!(
                    "the line's time is {age:.0} s ago, expected {OLDEST} at most"
                ));
            }
        }
        Ok(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn address_decides_between_server_and_page() {
        let server = |url: &str, query: &str| Ok(Query::Server(url.to_owned(), query.to_owned()));
        let api = "http://h:9090/api/v1/query";
        assert_eq!(Query::parse("http://h:9090#sum(a)"), server(api, "sum(a)"));
        assert_eq!(Query::parse("http://h:9090/#a{b=\"#\"}"), server(api, "a{b=\"#\"}"));
        let below = "https://h/p/api/v1/query";
        assert_eq!(Query::parse("https://h/p/api/v1/query#a"), server(below, "a"));
        let Ok(Query::Page(url, series)) = Query::parse("http://h/snmp?target=x#w{o=\"7\"}") else {
            panic!()
        };
        assert_eq!((&*url, series.labels.len()), ("http://h/snmp?target=x", 1));
        for wrong in ["http://h", "http://h#", "http://h/metrics#sum(a)", "http://h/metrics#a{b}"] {
            assert!(Query::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn answer_has_one_number_or_a_reason() {
        let vector = |samples: &str| {
            result(&format!(
                "{{\"status\":\"success\",\"data\":{{\"resultType\":\"vector\",\"result\":[{samples}]}}}}"
            ))
        };
        let one = "{\"metric\":{},\"value\":[1.5,\"212.5\"]}";
        assert_eq!(vector(one), Ok(212.5));
        for (text, says) in [
            (vector(""), "no value now"),
            (vector(&format!("{one},{one}")), "2 series"),
            (vector("{\"value\":[1,\"NaN\"]}"), "no number"),
            (vector("{\"value\":[1,\"+Inf\"]}"), "no number"),
            (result("<html>"), "no answer of Prometheus"),
            (result("{\"status\":\"error\",\"error\":\"bad\"}"), "bad"),
            (result("{\"status\":\"success\"}"), "no data"),
            (
                result(
                    "{\"status\":\"success\",\"data\":{\"resultType\":\"matrix\",\"result\":[]}}",
                ),
                "gives a matrix",
            ),
        ] {
            assert!(text.clone().is_err_and(|error| error.contains(says)), "{says}: {text:?}");
        }
    }

    #[test]
    fn line_of_a_page_is_found_by_its_labels_and_never_guessed() {
        let page = "# TYPE w gauge\nw{outlet=\"7\",name=\"a \\\"b\\\"\"} 101.5\nw{outlet=\"8\"} 90 1000\n\
                    ww{outlet=\"7\"} 5\nbare 7\nbad{outlet=\"7\"} NaN\n";
        let find = |text: &str| Series::parse(text).unwrap().0.find(page, 1.0);
        assert_eq!(find("w{outlet=\"7\"}"), Ok(101.5));
        assert_eq!(find("w{name=\"a \\\"b\\\"\"}"), Ok(101.5));
        assert_eq!(find("w{outlet=\"8\"}"), Ok(90.0));
        assert_eq!(find("bare"), Ok(7.0));
        for (text, says) in [("w", "2 lines"), ("x", "0 lines"), ("bad", "no number")] {
            assert!(find(text).is_err_and(|error| error.contains(says)), "{text}");
        }
        let late = Series::parse("w{outlet=\"8\"}").unwrap().0.find(page, 100.0);
        assert!(late.is_err_and(|error| error.contains("99 s ago")));
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_read_without_panic(text: String) {
            let _ = (Query::parse(&text), result(&text), Series::parse(&text));
        }
    }
}
