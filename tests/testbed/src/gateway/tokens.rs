//! An issuer of tokens, whose keys Envoy fetches.

use std::{
    net::SocketAddr,
    time::{SystemTime, UNIX_EPOCH},
};

use anyhow::{Context, Result, anyhow};
use base64::{Engine, prelude::BASE64_URL_SAFE_NO_PAD};
use ring::{
    rand::SystemRandom,
    signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair},
};
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use super::{
    network::{DATA, Network},
    server::{self, reply},
};

/// Free for tests: neither Envoy nor Envoy Gateway listens there.
const PORT: u16 = 9180;
const JWKS: &str = "/jwks.json";

/// Signs tokens with a key of its own making (ES256) and serves the public half of it.
pub struct Issuer {
    key: EcdsaKeyPair,
    random: SystemRandom,
    server: Option<JoinHandle<()>>,
}

impl Issuer {
    pub(super) async fn start(network: &Network) -> Result<Self> {
        let mut issuer = Self::without_server()?;
        let address = SocketAddr::from((DATA, PORT));
        let keys = json!({"keys": [issuer.public_key()]}).to_string();
        let listener = network.handle().spawn(server::listen(address)).await??;
        let serving = server::serve(listener, move |question| {
            let known = question.uri().path() == JWKS;
            let keys = keys.clone();
            std::future::ready(if known {
                reply(200, "application/json", keys)
            } else {
                reply(404, "text/plain", "there are only keys here")
            })
        });
        issuer.server = Some(network.handle().spawn(serving));
        Ok(issuer)
    }

    fn without_server() -> Result<Self> {
        let random = SystemRandom::new();
        let algorithm = &ECDSA_P256_SHA256_FIXED_SIGNING;
        let document = EcdsaKeyPair::generate_pkcs8(algorithm, &random).map_err(|_| anyhow!("make a key"))?;
        let key = EcdsaKeyPair::from_pkcs8(algorithm, document.as_ref(), &random)
            .map_err(|error| anyhow!("use a key of our own making: {error}"))?;
        Ok(Self { key, random, server: None })
    }

    /// Somebody else with the same name: nothing that it signs is good.
    pub fn impostor(&self) -> Result<Self> {
        Self::without_server()
    }

    /// The claim `iss` of its tokens.
    pub fn name(&self) -> String {
        format!("http://{DATA}:{PORT}")
    }

    /// The host at which it serves its keys.
    pub fn host(&self) -> String {
        DATA.to_string()
    }

    /// Where its keys are, as Envoy reaches them.
    pub fn jwks_uri(&self) -> String {
        format!("{}{JWKS}", self.name())
    }

    /// A token with these scopes, further claims (an object, which may also replace the usual ones) and an end in so
    /// many seconds: fewer than none, and it has expired.
    pub fn token(&self, scopes: &[&str], claims: &Value, expires_in: i64) -> Result<String> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).context("this machine's clock is off")?;
        let now = i64::try_from(now.as_secs())?;
        let mut payload = json!({
            "iss": self.name(),
            "sub": "somebody",
            "iat": now.min(now + expires_in - 1),
            "exp": now + expires_in,
            "scope": scopes.join(" "),
        });
        for (name, value) in claims.as_object().into_iter().flatten() {
            payload[name] = value.clone();
        }
        let header = json!({"alg": "ES256", "typ": "JWT", "kid": "test"});
        let encoded = |part: &Value| BASE64_URL_SAFE_NO_PAD.encode(part.to_string());
        let signed = format!("{}.{}", encoded(&header), encoded(&payload));
        let signature =
            self.key.sign(&self.random, signed.as_bytes()).map_err(|_| anyhow!("sign a token"))?;
        Ok(format!("{signed}.{}", BASE64_URL_SAFE_NO_PAD.encode(signature.as_ref())))
    }

    fn public_key(&self) -> Value {
        // One byte says that the point is not compressed; the two coordinates follow.
        let point = &self.key.public_key().as_ref()[1..];
        let (x, y) = point.split_at(point.len() / 2);
        json!({
            "kty": "EC", "crv": "P-256", "alg": "ES256", "use": "sig", "kid": "test",
            "x": BASE64_URL_SAFE_NO_PAD.encode(x), "y": BASE64_URL_SAFE_NO_PAD.encode(y),
        })
    }
}

impl Drop for Issuer {
    fn drop(&mut self) {
        if let Some(server) = &self.server {
            server.abort();
        }
    }
}
