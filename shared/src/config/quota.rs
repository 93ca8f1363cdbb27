//! Quotas and spend limits.
