//! HTTP/1.1 with persistent connections (RFC 9112). HTTP/2 and TLS are not supported.

mod answer;
mod chunked;
mod requests;
mod url;

pub use answer::HttpParser;
pub use requests::{Http, HttpOptions, HttpRequests};
pub use url::{Url, UrlError};
