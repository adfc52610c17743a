"""Results of batches: counts, receipts, refused rows, reports."""
