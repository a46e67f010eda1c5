//! Serves HTTP/1.1 on a listener until told to stop.

use std::convert::Infallible;
use std::error::Error;
use std::net::IpAddr;
use std::pin::pin;
use std::time::Duration;

use hyper::body::{Body, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use tokio::net::TcpListener;

/// How long open requests may take to finish after the stop.
const GRACE: Duration = Duration::from_secs(2);

/// The pause after a connection could not be accepted, as when all descriptors are in use.
const ACCEPT_AGAIN: Duration = Duration::from_millis(50);

/// Answers each request, told the address of its peer, with `answer`.
pub(crate) async fn serve<A, F, B>(listener: TcpListener, answer: A, stop: impl Future<Output = ()>)
where
    A: Fn(Request<Incoming>, IpAddr) -> F + Clone + Send + 'static,
    F: Future<Output = Response<B>> + Send + 'static,
    B: Body<Data: Send, Error: Into<Box<dyn Error + Send + Sync>>> + Send + 'static,
{
    let connections = GracefulShutdown::new();
    let mut stop = pin!(stop);
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = &mut stop => break,
        };
        let Ok((stream, peer)) = accepted else {
            tokio::time::sleep(ACCEPT_AGAIN).await;
            continue;
        };
        // Without it a small answer may wait for the acknowledgement of the one before.
        let _ = stream.set_nodelay(true);
        let answer = answer.clone();
        let service = service_fn(move |request| {
            let response = answer(request, peer.ip());
            async move { Ok::<_, Infallible>(response.await) }
        });
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .serve_connection(TokioIo::new(stream), service);
        // A connection that fails concerns its client only, who knows.
        tokio::spawn(connections.watch(connection));
    }
    drop(listener);
    let _ = tokio::time::timeout(GRACE, connections.shutdown()).await;
}
