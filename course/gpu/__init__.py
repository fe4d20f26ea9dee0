"""What has to happen on the day a GPU is at hand, on a machine that reaches nothing else?"""
