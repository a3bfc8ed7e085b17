"""What a program did, to be seen: record, trace, findings, reports and their pictures."""
