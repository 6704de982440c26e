//! HTTP client of remote meters: bounded in time and size, without redirects and proxies. TLS
//! trusts the system's roots or a certificate named by the operator.

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{CertificateError, ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use std::io::{Read, Write};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use ureq::http::{Response, header};
use ureq::unversioned::resolver::DefaultResolver;
use ureq::unversioned::transport::{
    Buffers, ConnectionDetails, Connector, Either, LazyBuffers, NextTimeout, TcpConnector,
    Transport, TransportAdapter,
};
use ureq::{Agent, Body, Error};

/// Longest wait for an answer. Management controllers can take seconds.
pub const TIME_LIMIT: Duration = Duration::from_secs(10);
/// Longest answer: exporters' pages have some hundred KiB.
const LONGEST: u64 = 4 << 20;

/// Reason why a server gave no value.
#[derive(Debug, Clone, PartialEq)]
pub struct Failure {
    /// True if the server refused the credentials: asking again soon may lock an account.
    pub denied: bool,
    /// The reason in words.
    pub reason: String,
}

impl From<String> for Failure {
    fn from(reason: String) -> Self {
        Self { denied: false, reason }
    }
}

/// A client with its trust.
#[derive(Debug, Clone)]
pub struct Client(Agent);

impl Client {
    /// Creates a client. If `secure`, it trusts the certificates of this PEM file, or the system's
    /// roots. Otherwise it cannot use TLS.
    ///
    /// # Errors
    /// When the file has no certificate, or the system has none.
    pub fn new(certificate: Option<&Path>, secure: bool) -> Result<Self, String> {
        let config = Agent::config_builder()
            .timeout_global(Some(TIME_LIMIT))
            .max_redirects(0)
            .max_redirects_will_error(false)
            .http_status_as_error(false)
            .proxy(None)
            .user_agent("wattline")
            .build();
        let tls = secure.then(|| tls_config(certificate)).transpose()?;
        let tls = Tls { config: tls.map(Arc::new) };
        let connector = ().chain(TcpConnector::default()).chain(tls);
        Ok(Self(Agent::with_parts(config, connector, DefaultResolver::default())))
    }

    /// Gets a text. `query` is a parameter of the address; `secret` a header with credentials.
    pub fn get(
        &self,
        url: &str,
        query: Option<&str>,
        secret: Option<(&str, &str)>,
    ) -> Result<String, Failure> {
        let mut request = self.0.get(url).header(header::ACCEPT, "*/*");
        if let Some(query) = query {
            request = request.query("query", query);
        }
        if let Some((name, value)) = secret {
            request = request.header(name, value);
        }
        text(request.call().map_err(|error| reason(&error))?)
    }

    /// Opens a session with this text, and returns the headers of its token and its address.
    pub fn post(&self, url: &str, body: &str) -> Result<(String, Option<String>), Failure> {
        let request = self.0.post(url).header(header::CONTENT_TYPE, "application/json");
        let answer = request.send(body).map_err(|error| reason(&error))?;
        let field = |name: &str| Some(answer.headers().get(name)?.to_str().ok()?.to_owned());
        let (token, place) = (field("x-auth-token"), field("location"));
        text(answer)?;
        let token = token.ok_or_else(|| "the answer has no X-Auth-Token".to_owned())?;
        Ok((token, place))
    }

    /// Deletes a session; a remaining one ends by the server's own time limit.
    pub fn delete(&self, url: &str, (name, value): (&str, &str)) {
        let _ = self.0.delete(url).header(name, value).call();
    }
}

fn text(mut answer: Response<Body>) -> Result<String, Failure> {
    let status = answer.status();
    let denied = matches!(status.as_u16(), 401 | 403);
    if denied {
        let reason = format!("answers {status}: it wants other credentials (key `credentials`)");
        return Err(Failure { denied, reason });
    }
    if status.is_redirection() {
        return Err(format!("answers {status}: redirects are not followed; name its target").into());
    }
    let body = answer.body_mut().with_config().limit(LONGEST).read_to_string();
    if !status.is_success() {
        // Prometheus explains a malformed query here.
        let body: String = body.unwrap_or_default().chars().take(200).collect();
        return Err(format!("answers {status}: {}", body.trim()).into());
    }
    body.map_err(|error| reason(&error))
}

fn reason(error: &Error) -> Failure {
    let certificate = |error: &rustls::Error| {
        format!("TLS failed: {error}; for a certificate of your own: key `certificate`").into()
    };
    match error {
        Error::Timeout(_) => format!("no answer within {} s", TIME_LIMIT.as_secs()).into(),
        Error::BodyExceedsLimit(most) => format!("the answer is longer than {most} bytes").into(),
        Error::Rustls(error) => certificate(error),
        Error::Io(io) => match io.get_ref().and_then(|inner| inner.downcast_ref()) {
            Some(error) => certificate(error),
            None => io.to_string().into(),
        },
        other => other.to_string().into(),
    }
}

fn tls_config(certificate: Option<&Path>) -> Result<ClientConfig, String> {
    let provider = Arc::new(aws_lc_rs::default_provider());
    let pins = certificate.map(pinned).transpose()?;
    let mut roots = RootCertStore::empty();
    match &pins {
        Some(pins) => roots.add_parsable_certificates(pins.iter().cloned()),
        None => roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs),
    };
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?;
    if roots.is_empty() {
        let place = certificate.map_or("this system".to_owned(), |path| path.display().to_string());
        return Err(format!("{place} has no usable certificate: name one with `certificate`"));
    }
    let verifier = WebPkiServerVerifier::builder_with_provider(roots.into(), provider.clone())
        .build()
        .map_err(|error| error.to_string())?;
    let verifier = Verifier { inner: verifier, pins: pins.unwrap_or_default(), provider };
    let config = builder.dangerous().with_custom_certificate_verifier(Arc::new(verifier));
    Ok(config.with_no_client_auth())
}

fn pinned(path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let wrong = |error| format!("{}: {error}; expected a certificate as PEM", path.display());
    let pins: Vec<_> =
        CertificateDer::pem_file_iter(path).and_then(Iterator::collect).map_err(wrong)?;
    match pins.is_empty() {
        true => Err(format!("{}: no certificate; expected one as PEM", path.display())),
        false => Ok(pins),
    }
}

/// Trusts certificates signed by the roots, and a named certificate despite its names and uses:
/// controllers sign their own, for other names. Dates always count.
#[derive(Debug)]
struct Verifier {
    inner: Arc<WebPkiServerVerifier>,
    pins: Vec<CertificateDer<'static>>,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        use CertificateError::{
            BadEncoding, Expired, ExpiredContext, NotValidYet, NotValidYetContext,
        };
        let verified = self.inner.verify_server_cert(end_entity, intermediates, name, ocsp, now);
        match verified {
            Err(rustls::Error::InvalidCertificate(
                Expired
                | ExpiredContext { .. }
                | NotValidYet
                | NotValidYetContext { .. }
                | BadEncoding,
            )) => verified,
            Err(_) if self.pins.iter().any(|pin| pin == end_entity) => {
                Ok(ServerCertVerified::assertion())
            }
            other => other,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &rustls::DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.inner.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &rustls::DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.inner.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<rustls::SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

/// Puts TLS over a connection. The library's own connector takes no verifier.
#[derive(Debug)]
struct Tls {
    config: Option<Arc<ClientConfig>>,
}

impl<In: Transport> Connector<In> for Tls {
    type Out = Either<In, TlsTransport>;

    fn connect(
        &self,
        details: &ConnectionDetails<'_>,
        chained: Option<In>,
    ) -> Result<Option<Self::Out>, Error> {
        let Some(transport) = chained else { return Ok(None) };
        if !details.needs_tls() {
            return Ok(Some(Either::A(transport)));
        }
        let config = self.config.clone().ok_or(Error::Tls("no trust"))?;
        let host = details.uri.host().unwrap_or_default().trim_matches(['[', ']']).to_owned();
        let name =
            ServerName::try_from(host).map_err(|_| Error::Tls("the host has no valid name"))?;
        let conn = ClientConnection::new(config, name)?;
        let mut sock = TransportAdapter::new(transport.boxed(), Arc::clone(&details.current_time));
        sock.set_timeout(details.timeout);
        let mut stream = StreamOwned { conn, sock };
        stream.conn.complete_io(&mut stream.sock)?;
        let size = (details.config.input_buffer_size(), details.config.output_buffer_size());
        Ok(Some(Either::B(TlsTransport { buffers: LazyBuffers::new(size.0, size.1), stream })))
    }
}

struct TlsTransport {
    buffers: LazyBuffers,
    stream: StreamOwned<ClientConnection, TransportAdapter>,
}

impl std::fmt::Debug for TlsTransport {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("TlsTransport")
    }
}

impl Transport for TlsTransport {
    fn buffers(&mut self) -> &mut dyn Buffers {
        &mut self.buffers
    }

    fn transmit_output(&mut self, amount: usize, timeout: NextTimeout) -> Result<(), Error> {
        self.stream.get_mut().set_timeout(timeout);
        Ok(self.stream.write_all(&self.buffers.output()[..amount])?)
    }

    fn await_input(&mut self, timeout: NextTimeout) -> Result<bool, Error> {
        self.stream.get_mut().set_timeout(timeout);
        let amount = self.stream.read(self.buffers.input_append_buf())?;
        self.buffers.input_appended(amount);
        Ok(amount > 0)
    }

    fn is_open(&mut self) -> bool {
        self.stream.get_mut().get_mut().is_open()
    }

    fn is_tls(&self) -> bool {
        true
    }
}

/// Credentials, from a file that only its owner can read.
#[derive(Clone, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Credentials {
    user: Option<String>,
    password: Option<String>,
    token: Option<String>,
}

impl Credentials {
    /// Reads the file.
    ///
    /// # Errors
    /// When others may read the file, or its contents are invalid. The message never shows
    /// contents.
    pub fn read(path: &Path) -> Result<Self, String> {
        use std::os::unix::fs::MetadataExt;
        let shown = path.display();
        let failed = |error: std::io::Error| format!("{shown}: {error}");
        let file = std::fs::File::open(path).map_err(failed)?;
        let about = file.metadata().map_err(failed)?;
        let owner = rustix::process::geteuid().as_raw();
        if !about.is_file() || about.uid() != owner || about.mode() & 0o077 != 0 {
            return Err(format!(
                "{shown}: others may read or change these credentials: chown root {shown}; \
                 chmod 600 {shown}"
            ));
        }
        let mut text = String::new();
        file.take(64 << 10).read_to_string(&mut text).map_err(failed)?;
        let expected = || {
            format!("{shown}: expected user = \"...\" and password = \"...\", or token = \"...\"")
        };
        let read: Self = toml::from_str(&text).map_err(|_| expected())?;
        let complete = matches!(
            (&read.user, &read.password, &read.token),
            (Some(_), Some(_), None) | (None, None, Some(_))
        );
        if complete { Ok(read) } else { Err(expected()) }
    }

    /// Returns the header that carries them: by the basic scheme (RFC 7617) or as a bearer token.
    pub fn header(&self) -> (&'static str, String) {
        use base64::Engine as _;
        let value = match (&self.user, &self.password, &self.token) {
            (Some(user), Some(password), _) => {
                let pair = format!("{user}:{password}");
                format!("Basic {}", base64::engine::general_purpose::STANDARD.encode(pair))
            }
            (.., token) => format!("Bearer {}", token.as_deref().unwrap_or_default()),
        };
        ("Authorization", value)
    }

    /// Returns the text that opens a Redfish session; none for a token.
    pub fn session(&self) -> Option<String> {
        let (user, password) = (self.user.as_ref()?, self.password.as_ref()?);
        Some(serde_json::json!({ "UserName": user, "Password": password }).to_string())
    }
}
