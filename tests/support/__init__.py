"""What tests of several rooms share: scripted peers, examples of bytes, benches for machines."""
