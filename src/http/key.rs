//! Client keys: the trait, what to do without one, the peer's address, and how keys combine.

use alloc::sync::Arc;
use core::fmt;
use core::hash::Hash;
use core::net::{IpAddr, SocketAddr};

use ::http::Extensions;
use ::http::request::Parts;

use super::network::{Network, Prefixes};

/// Takes the client key from a request.
///
/// Every closure from [`Parts`] to an `Option` is one. A tuple of these gives the tuple of their
/// keys, if all are there; [`or`](Self::or) gives the first that is there.
pub trait KeyOf {
    /// The client key.
    type Key: Hash + Eq + Clone + Send + Sync + 'static;

    /// The key of the client that sent this request; `None` if the request does not tell.
    fn key_of(&self, request: &Parts) -> Option<Self::Key>;

    /// This key, or `other` where this one is missing. The two never meet: a client cannot take
    /// another's key of one kind by sending one of the other kind.
    fn or<O: KeyOf>(self, other: O) -> Or<Self, O>
    where
        Self: Sized,
    {
        Or(self, other)
    }
}

impl<F, K> KeyOf for F
where
    F: Fn(&Parts) -> Option<K>,
    K: Hash + Eq + Clone + Send + Sync + 'static,
{
    type Key = K;

    fn key_of(&self, request: &Parts) -> Option<K> {
        self(request)
    }
}

/// What becomes of a request that has no client key. There is no default: each choice is wrong
/// somewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WithoutKey<K> {
    /// All such requests are one client, under this key.
    Share(K),
    /// It is refused.
    Refuse,
    /// It is admitted, by no limit.
    Admit,
}

/// The network of the peer: for a service that clients reach directly. Behind a proxy all clients
/// would share the proxy's address; there it is [`ForwardedFor`](super::ForwardedFor) that tells.
///
/// The address comes from the request's extensions, where the server has put it.
///
/// ```
/// use std::net::SocketAddr;
/// use tollgate::http::{KeyOf, PeerAddress};
///
/// // Whoever accepted the connection adds the SocketAddr. Other servers have types of their own:
/// // PeerAddress::from_extension(|ConnectInfo(peer): &ConnectInfo<SocketAddr>| Some(peer.ip()))
/// let peer: SocketAddr = "[2001:db8:1:2:3::4]:5678".parse()?;
/// let (request, ()) = http::Request::builder().extension(peer).body(())?.into_parts();
/// let key = PeerAddress::new().key_of(&request).unwrap();
/// assert_eq!(key.to_string(), "2001:db8:1:2::/64");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct PeerAddress {
    read: Arc<ReadAddress>,
    prefixes: Prefixes,
}

type ReadAddress = dyn Fn(&Extensions) -> Option<IpAddr> + Send + Sync;

impl PeerAddress {
    /// The address in an extension of type [`SocketAddr`], cut to /32 or /64.
    pub fn new() -> Self {
        Self::from_extension(|peer: &SocketAddr| Some(peer.ip()))
    }

    /// The address that `read` finds in an extension of type `T`, cut to /32 or /64.
    pub fn from_extension<T, F>(read: F) -> Self
    where
        T: Send + Sync + 'static,
        F: Fn(&T) -> Option<IpAddr> + Send + Sync + 'static,
    {
        let read = move |extensions: &Extensions| read(extensions.get::<T>()?);
        Self { read: Arc::new(read), prefixes: Prefixes::default() }
    }

    /// Cuts addresses to these prefixes.
    #[must_use]
    pub fn prefixes(self, prefixes: Prefixes) -> Self {
        Self { prefixes, ..self }
    }

    pub(super) fn address(&self, request: &Parts) -> Option<IpAddr> {
        (self.read)(&request.extensions)
    }

    pub(super) fn cut(&self, address: IpAddr) -> Network {
        self.prefixes.cut(address)
    }
}

impl Default for PeerAddress {
    fn default() -> Self {
        Self::new()
    }
}

impl KeyOf for PeerAddress {
    type Key = Network;

    fn key_of(&self, request: &Parts) -> Option<Network> {
        Some(self.cut(self.address(request)?))
    }
}

impl fmt::Debug for PeerAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PeerAddress").field("prefixes", &self.prefixes).finish_non_exhaustive()
    }
}

/// One key, or else another: from [`KeyOf::or`].
#[derive(Clone, Copy, Debug)]
pub struct Or<A, B>(A, B);

/// A key of one kind or of another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EitherKey<A, B> {
    /// The key that was asked for first.
    First(A),
    /// The one in its place.
    Second(B),
}

impl<A: KeyOf, B: KeyOf> KeyOf for Or<A, B> {
    type Key = EitherKey<A::Key, B::Key>;

    fn key_of(&self, request: &Parts) -> Option<Self::Key> {
        let first = self.0.key_of(request).map(EitherKey::First);
        first.or_else(|| self.1.key_of(request).map(EitherKey::Second))
    }
}

macro_rules! tuple {
    ($($kind:ident $index:tt),+) => {
        impl<$($kind: KeyOf),+> KeyOf for ($($kind,)+) {
            type Key = ($($kind::Key,)+);

            fn key_of(&self, request: &Parts) -> Option<Self::Key> {
                Some(($(self.$index.key_of(request)?,)+))
            }
        }
    };
}

tuple!(A 0, B 1);
tuple!(A 0, B 1, C 2);
tuple!(A 0, B 1, C 2, D 3);
