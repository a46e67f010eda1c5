//! The event that tells of a refusal, after the decision was made.

use crate::decision::Decision;

/// Tells of a refusal, at debug level. The client's key is not told: it may be a secret.
#[cold]
pub(crate) fn refused(tier: Option<&str>, cost: u64, decision: &Decision) {
    tracing::debug!(
        target: "tollgate",
        tier,
        cost,
        limit = decision.limit(),
        remaining = decision.remaining(),
        by_client = decision.refused_by_client(),
        by_global = decision.refused_by_global(),
        for_lack_of_room = decision.refused_because_full(),
        retry_after = %decision.retry_after(),
        "refused"
    );
}
