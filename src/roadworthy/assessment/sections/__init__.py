"""The sections of the assessment file: one file, one method. `roadworthy.assessment.section` has the contract."""
