"""Which of an ordered list made it worse: checkpoints, SGLang versions."""
