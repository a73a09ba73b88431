"""An assessment: from the file to the verdict, by sections that each add one method."""
